"""Names, rights and switches that change while a sweep runs, and what has nothing to do with it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, drop_partition, keep, older_than, run_contracts
from gandy.lifecycle.driver.shift import Shift
from tests.lifecycle.ground import NOW, ago, steps_of
from tests.lifecycle.paths import on_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground

ROWS, BATCH = 40, 10
PARTITIONED = Table("event", [drop_partition("at", keep_for="90d")])


def sweep(ground: Ground, *tables: Table, at_batch: Callable[[], None]) -> ContractReport:
    """Sweep in batches; the change is made right after the first one was committed."""
    once = iter([at_batch])
    by = SweepOptions(
        clock=ManualClock(NOW),
        confirm=lambda _held: True,
        pruned=lambda *_: next(once, lambda: None)(),
    )
    [report] = run_contracts([Contract("app", tables, batch=steps_of(BATCH))], ground.url, options=by)
    return report


def make_partitions(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint, at timestamptz) PARTITION BY RANGE (at)",
        "CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
        "CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')",
        "CREATE TABLE event_9 PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-04-01')",
        "INSERT INTO event VALUES (1, '2024-01-05'), (2, '2024-02-05'), (9, '2026-03-01')",
    )


CHANGES = {
    "names swapped": [
        "ALTER TABLE event_2 RENAME TO event_0",
        "ALTER TABLE event_9 RENAME TO event_2",
        "ALTER TABLE event_0 RENAME TO event_9",
    ],
    "bound widened": [
        "ALTER TABLE event DETACH PARTITION event_9",
        "ALTER TABLE event DETACH PARTITION event_2",
        "INSERT INTO event_2 SELECT * FROM event_9",
        "ALTER TABLE event ATTACH PARTITION event_2 FOR VALUES FROM ('2024-02-01') TO ('2026-04-01')",
    ],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_partition_is_dropped_by_what_it_is_not_by_its_name(postgres: Ground, change: str) -> None:
    make_partitions(postgres)

    sweep(postgres, PARTITIONED, at_batch=lambda: postgres.run(*CHANGES[change]))

    assert 9 in postgres.ids("event")
    assert 1 not in postgres.ids("event")


@pytest.fixture
def role(postgres: Ground) -> Iterator[str]:
    """A role that sees every row of a table whose policy hides them all."""
    name = f"sweeper_{uuid4().hex[:8]}"
    postgres.run(
        "CREATE TABLE parent (id bigint PRIMARY KEY, at timestamptz)",
        "CREATE TABLE child (id bigint PRIMARY KEY, parent_id bigint REFERENCES parent ON DELETE CASCADE,"
        " held boolean)",
        "CREATE INDEX parents ON parent (at, id)",
        "CREATE INDEX children ON child (parent_id)",
        "ALTER TABLE child ENABLE ROW LEVEL SECURITY",
        f"CREATE ROLE {name} LOGIN BYPASSRLS",
        f"GRANT CREATE, USAGE ON SCHEMA public TO {name}",
        f"GRANT SELECT, UPDATE, DELETE ON parent, child TO {name}",
    )
    postgres.fill("parent", [(n, ago(days=60 - n)) for n in range(1, ROWS + 1)])
    postgres.fill("child", [(n, n, True) for n in range(BATCH + 5, ROWS + 1)])
    yield name
    with closing(postgres.connect()) as owner:
        owner.execute(f"DROP OWNED BY {name}")
        owner.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize("way", ["wait_for", "keep"])
def test_rows_that_begin_to_be_hidden_stop_the_rule(postgres: Ground, role: str, way: str) -> None:
    waits = ["child.parent_id"] if way == "wait_for" else []
    parent = Table(
        "parent",
        [older_than("at", keep_for="7d", wait_for=waits)],
        children={} if waits else {"child.parent_id": "cascade"},
    )
    tables = [parent, Table("child", [keep(column="held", equals=True)])]

    report = sweep(
        on_path(postgres, "public", role=role),
        *tables,
        at_batch=lambda: postgres.run(f"ALTER ROLE {role} NOBYPASSRLS"),
    )

    assert len(postgres.ids("child")) == ROWS - BATCH - 4
    assert len(postgres.ids("parent")) == ROWS - BATCH
    assert any(
        "row-level security" in failure.error.replace("row level", "row-level") for failure in report.failures
    )


def make_rows(ground: Ground) -> Table:
    ground.run("CREATE TABLE event (id {key}, at {instant})", "CREATE INDEX events ON event (at, id)")
    ground.fill("event", [(n, ago(days=60 - n)) for n in range(1, ROWS + 1)])
    return Table("event", [older_than("at", keep_for="7d")])


def test_other_tables_may_come_and_go_as_they_like(ground: Ground) -> None:
    table = make_rows(ground)

    def churn(*_: object) -> None:
        ground.run("CREATE TABLE scratch (id {key}, note text)", "DROP TABLE scratch")

    by = SweepOptions(clock=ManualClock(NOW), confirm=lambda _held: True, pruned=churn)
    [report] = run_contracts([Contract("app", [table], batch=steps_of(2))], ground.url, options=by)

    assert (ground.ids("event"), report.failures) == ([], [])


def test_a_switch_that_is_turned_off_and_on_leaves_no_batch_behind(
    postgres: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is off when a batch begins, and on again when the sweep asks why nothing went."""
    table = make_rows(postgres)
    postgres.run(
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
        "CREATE TRIGGER quiet BEFORE UPDATE ON event FOR EACH ROW EXECUTE FUNCTION nothing()",
    )
    ask = Shift.hold_on

    def turned_on(shift: Shift, connection: Connection) -> None:
        postgres.run("ALTER TABLE event ENABLE TRIGGER quiet")
        ask(shift, connection)

    monkeypatch.setattr(Shift, "hold_on", turned_on)
    report = sweep(postgres, table, at_batch=lambda: postgres.run("ALTER TABLE event DISABLE TRIGGER quiet"))

    assert (postgres.ids("event"), report.failures) == ([], [])
