"""Partitions that a rule cannot judge, and partitions that the database does not let go."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    check,
    drop_partition,
    expires,
    keep,
    older_than,
    plan,
    run_contracts,
)
from gandy.lifecycle.database.dialect import LockPatience
from tests.lifecycle.ground import NOW, ago
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from gandy.lifecycle.reports.plan import PlannedRule
    from tests.lifecycle.ground import Ground

DROPS = Table("event", [drop_partition("at", keep_for="90d")])
OTHER = Table("other", [expires("at")])
OLD = "FROM ('2024-01-01') TO ('2024-02-01')"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
PATIENT = SweepOptions(patience=LockPatience(lock=timedelta(seconds=20), statement=timedelta(seconds=20)))
OLDER = "FROM ('2023-01-01') TO ('2023-02-01')"


def planned(ground: Ground, *tables: Table) -> list[PlannedRule]:
    return plan([Contract("app", tables)], ground.url, clock=ManualClock(NOW))


@pytest.mark.parametrize(
    ("layout", "bounds"),
    [
        ("LIST (at)", "IN ('2020-06-01')"),
        ("HASH (at)", "WITH (MODULUS 1, REMAINDER 0)"),
        ("RANGE (at, id)", "FROM ('2020-01-01', 0) TO ('2021-01-01', 0)"),
        ("RANGE (id)", "FROM (0) TO (10)"),
        ("RANGE (date_trunc('day', at))", "FROM ('2020-01-01') TO ('2021-01-01')"),
    ],
    ids=["list", "hash", "two columns", "another column", "an expression"],
)
def test_partitions_of_another_kind_are_refused_and_stop_no_other_rule(
    postgres: Ground, layout: str, bounds: str
) -> None:
    postgres.run(
        f"CREATE TABLE event (id bigint, at timestamp) PARTITION BY {layout}",
        f"CREATE TABLE event_old PARTITION OF event FOR VALUES {bounds}",
        "INSERT INTO event VALUES (1, '2020-06-01')",
        "CREATE TABLE other (id bigint PRIMARY KEY, at timestamptz)",
        "CREATE INDEX by_at ON other (at)",
    )
    postgres.fill("other", [(1, ago(days=1))])

    found = check([Contract("app", [DROPS])], postgres.url)
    [first, _] = planned(postgres, DROPS, OTHER)
    report = postgres.sweep(DROPS, OTHER)

    assert any("BY RANGE (at)" in str(finding) and "older_than" in str(finding) for finding in found)
    assert first.refused is not None
    assert ["older_than" in failure.error for failure in report.failures] == [True]
    assert report.counts == {"other": 1}


def make_ranges(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint, at timestamptz) PARTITION BY RANGE (at)",
        f"CREATE TABLE event_older PARTITION OF event FOR VALUES {OLDER}",
        f"CREATE TABLE event_old PARTITION OF event FOR VALUES {OLD}",
        "INSERT INTO event VALUES (1, '2023-01-05'), (2, '2024-01-05')",
    )


@pytest.mark.parametrize("bounds", ["DEFAULT", "FOR VALUES FROM ('2025-01-01') TO (MAXVALUE)"])
def test_rows_in_a_partition_without_an_upper_bound_are_told(postgres: Ground, bounds: str) -> None:
    make_ranges(postgres)
    postgres.run(f"CREATE TABLE event_rest PARTITION OF event {bounds}")
    assert [rule.warnings for rule in planned(postgres, DROPS)] == [()]
    postgres.run("INSERT INTO event VALUES (3, '2025-03-01')")

    [foreseen], report = planned(postgres, DROPS), postgres.sweep(DROPS)

    assert "event_rest" in foreseen.warnings[0]
    assert "event_rest" in str(report.warnings[0])
    assert postgres.ids("event") == [3]


@pytest.mark.parametrize(
    "need",
    [
        "CREATE VIEW seen AS SELECT * FROM event_older",
        "CREATE TABLE note (event_id bigint REFERENCES event_older (id))",
    ],
    ids=["a view", "a foreign key"],
)
def test_a_partition_that_the_database_keeps_does_not_keep_the_others(postgres: Ground, need: str) -> None:
    make_ranges(postgres)
    postgres.run("ALTER TABLE event_older ADD UNIQUE (id)", need)

    [foreseen], report = planned(postgres, DROPS), postgres.sweep(DROPS)

    assert (foreseen.rows, foreseen.batches) == (1, 1)
    assert any("event_older cannot be dropped" in note for note in foreseen.notes)
    assert ["event_older cannot be dropped" in failure.error for failure in report.failures] == [True]
    assert (postgres.ids("event"), report.counts) == ([1], {"event": 1})
    assert [(rule.rows, rule.batches) for rule in report.rules] == [(1, 1)]


@pytest.mark.parametrize("owner", ["event", "event_older"])
def test_a_delete_trigger_that_no_drop_fires_stops_the_rule_until_it_is_listed(
    postgres: Ground, owner: str
) -> None:
    make_ranges(postgres)
    audited(postgres, owner)
    name = "audited" if owner == "event" else "event_older.audited"

    report = postgres.sweep(DROPS)
    listed = postgres.sweep(Table("event", DROPS.rules, triggers=[name]))

    assert "does not fire when a partition is dropped" in report.failures[0].error
    assert f'triggers = ["{name}"]' in report.failures[0].error or owner == "event_older"
    assert listed.is_clean, listed.failures
    assert (postgres.ids("event"), postgres.ids("audit")) == ([], [])


def audited(postgres: Ground, owner: str) -> None:
    """Make a trigger of the table, and so of its partitions, that notes deleted rows elsewhere."""
    postgres.run(
        "CREATE TABLE audit (id bigint)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO audit VALUES (OLD.id); RETURN OLD; END $$",
        f"CREATE TRIGGER audited AFTER DELETE ON {owner} FOR EACH ROW EXECUTE FUNCTION note()",
    )


@pytest.mark.parametrize("swept", ["event", "event_old", "event_old_first"])
@pytest.mark.parametrize("owner", ["event", "event_old", "event_old_first"])
def test_a_trigger_of_any_level_stops_a_rule_on_a_table_whose_rows_fire_it(
    postgres: Ground, owner: str, swept: str
) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint, at timestamptz, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        f"CREATE TABLE event_old PARTITION OF event FOR VALUES {OLD} PARTITION BY RANGE (id)",
        "CREATE TABLE event_old_first PARTITION OF event_old FOR VALUES FROM (0) TO (100)",
        "INSERT INTO event VALUES (1, '2024-01-05')",
    )
    audited(postgres, owner)
    rules = [older_than("at", keep_for="1d")]
    depth = ["event", "event_old", "event_old_first"].index
    own = max(depth(owner), depth(swept))
    name = "audited" if own == depth(swept) else f"{owner}.audited"

    found = check([Contract("app", [Table(swept, rules)])], postgres.url)
    stopped = postgres.sweep(Table(swept, rules))
    listed = postgres.sweep(Table(swept, rules, triggers=[name]))

    assert any("audited" in str(each) and each.severity.stops for each in found)
    assert "audited" in stopped.failures[0].error
    assert listed.is_clean, listed.failures
    assert (postgres.ids("event"), postgres.ids("audit")) == ([], [1])


@pytest.mark.parametrize("rule", ["older_than", "drop_partition"])
def test_a_trigger_that_only_a_partition_has_switched_on_stops_the_rule(postgres: Ground, rule: str) -> None:
    make_ranges(postgres)
    postgres.run("ALTER TABLE event ADD PRIMARY KEY (id, at)")
    audited(postgres, "event")
    postgres.run("ALTER TABLE event DISABLE TRIGGER audited", "ALTER TABLE event_old ENABLE TRIGGER audited")
    table = DROPS if rule == "drop_partition" else Table("event", [older_than("at", keep_for="1d")])

    report = postgres.sweep(table)

    assert "event_old" in report.failures[0].error
    assert "audited" in report.failures[0].error
    assert (postgres.ids("event"), postgres.ids("audit")) == ([1, 2], [])


@pytest.mark.parametrize("kind", ["INSERT", "UPDATE", "DELETE"])
def test_a_rewrite_rule_of_a_partition_goes_with_it(postgres: Ground, kind: str) -> None:
    make_ranges(postgres)
    postgres.run(
        "CREATE TABLE audit (id bigint)",
        f"CREATE RULE noted AS ON {kind} TO event_older DO ALSO INSERT INTO audit VALUES (1)",  # noqa: S608
    )

    [foreseen], report = planned(postgres, DROPS), postgres.sweep(DROPS)

    assert (foreseen.rows, report.counts) == (2, {"event": 2})


@pytest.mark.parametrize(
    "need",
    [
        "CREATE TABLE other (row event_older)",
        "CREATE TABLE other (rows event_older[])",
        "CREATE FUNCTION reads(event_older) RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
    ],
    ids=["a column", "an array", "a function"],
)
def test_a_partition_whose_row_type_is_used_is_planned_as_kept(postgres: Ground, need: str) -> None:
    make_ranges(postgres)
    postgres.run(need)

    [foreseen], report = planned(postgres, DROPS), postgres.sweep(DROPS)

    assert (foreseen.rows, report.counts) == (1, {"event": 1})
    assert any("event_older cannot be dropped" in note for note in foreseen.notes)


@pytest.mark.parametrize("rules", ["rows", "partitions"])
@pytest.mark.parametrize("are_two", [False, True], ids=["one contract", "another contract"])
def test_a_partition_and_its_table_cannot_both_have_rules(
    postgres: Ground, rules: str, *, are_two: bool
) -> None:
    make_ranges(postgres)
    postgres.run("ALTER TABLE event ADD PRIMARY KEY (id, at)")
    own = Table("event_old", [older_than("at", keep_for="1d")])
    whole = Table("event", [older_than("at", keep_for="1d")] if rules == "rows" else list(DROPS.rules))
    contracts = (
        [Contract("one", [own]), Contract("two", [whole])] if are_two else [Contract("one", [own, whole])]
    )

    found = check(contracts, postgres.url)
    by = SweepOptions(clock=ManualClock(NOW))
    reports = run_contracts(contracts, postgres.url, options=by)

    assert [each.table for each in found if "is a partition of public.event" in str(each)] == ["event_old"]
    failures = [failure for report in reports for failure in report.failures]
    assert [(failure.table, "put its rules there" in failure.error) for failure in failures] == [
        ("event_old", True)
    ]
    assert postgres.ids("event") == []  # by the rule of the table


def test_a_hold_set_while_the_drop_waits_for_its_lock_holds(postgres: Ground) -> None:
    make_ranges(postgres)
    postgres.run("ALTER TABLE event ADD COLUMN held boolean")
    table = Table("event", [*DROPS.rules, keep(column="held", equals=True)])
    with closing(postgres.connect()) as owner, ThreadPoolExecutor() as pool:
        owner.execute("BEGIN")
        owner.execute("UPDATE event SET held = true WHERE at < '2024-01-01'")
        sweeping = pool.submit(postgres.sweep, table, by=PATIENT)
        wait_until(lambda: postgres.rows(WAITING) == [(1,)], "the drop waits for the lock")
        owner.execute("COMMIT")
        report = sweeping.result()

    assert postgres.rows("SELECT held FROM event WHERE at < '2024-01-01'") == [(True,)]
    assert report.failures == []
