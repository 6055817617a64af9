"""What a keep protects: its row, and everything above it whose deletion would take it along."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.cli.main import main
from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    cap,
    check,
    drop_partition,
    inline,
    keep,
    loads,
    older_than,
    plan,
    run_contracts,
)
from gandy.lifecycle.database.dialect import LockPatience
from tests.lifecycle.ground import NOW, ago
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="7d")
HELD = Table("grandchild", [keep("held", equals=True), inline("the application")])
ACTIONS = [
    ("", "delete_first"),
    ("ON DELETE RESTRICT", "delete_first"),
    ("ON DELETE SET NULL", "delete_first"),
    ("ON DELETE CASCADE", "delete_first"),
    ("ON DELETE CASCADE", "cascade"),
]
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
PATIENT = LockPatience(lock=timedelta(seconds=20), statement=timedelta(seconds=20))


def make(ground: Ground, action: str = "", flag: str = "{flag}") -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, tenant bigint, at {instant})",
        f"CREATE TABLE child (id {{key}}, parent_id bigint REFERENCES parent (id) {action})",
        f"CREATE TABLE grandchild (id {{key}}, child_id bigint REFERENCES child (id) {action}, held {flag})",
        "CREATE INDEX by_age ON parent (at)",
        "CREATE INDEX by_tenant ON parent (tenant, at)",
        "CREATE INDEX by_parent ON child (parent_id)",
        "CREATE INDEX by_child ON grandchild (child_id)",
    )
    ground.fill("parent", [*((n, 1, ago(days=9)) for n in range(1, 4)), (9, 1, ago(days=1))])
    ground.fill("child", [(10 * n, n) for n in range(1, 4)])


def parent(rule: Any = RULE, mode: str = "delete_first") -> Table:  # noqa: ANN401  # of any kind
    return Table("parent", [rule], children={"child.parent_id": mode, "grandchild.child_id": mode})


@pytest.mark.parametrize("rule", [RULE, cap(1, per=["tenant"], order_by="at")], ids=["age", "cap"])
@pytest.mark.parametrize(("action", "mode"), ACTIONS)
def test_a_held_grandchild_keeps_all_above_it(ground: Ground, action: str, mode: str, rule: Any) -> None:  # noqa: ANN401
    make(ground, action)
    ground.fill("grandchild", [(100, 10, False), (200, 20, True), (300, 30, None)])

    report = ground.sweep(parent(rule, mode), HELD)

    assert report.failures == []
    assert (ground.ids("parent"), ground.ids("child"), ground.ids("grandchild")) == ([2, 9], [20], [200])
    assert report.counts == {"parent": 2, "child": 2, "grandchild": 2}


def test_a_keep_of_another_contract_counts(ground: Ground) -> None:
    make(ground)
    ground.fill("grandchild", [(100, 10, False), (200, 20, True), (300, 30, None)])
    contracts = [Contract("sweeps", [parent()]), Contract("legal", [HELD])]
    clock = ManualClock(NOW)

    planned, *_others = plan(contracts, ground.url, clock=clock)
    run_contracts(contracts, ground.url, options=SweepOptions(clock=clock))

    assert planned.rows == 2
    assert (ground.ids("parent"), ground.ids("grandchild")) == ([2, 9], [200])


def test_a_contract_kept_on_its_own_still_heeds_the_holds_of_the_others(ground: Ground) -> None:
    make(ground)
    ground.fill("grandchild", [(100, 10, False), (200, 20, True), (300, 30, None)])
    by = SweepOptions(clock=ManualClock(NOW), beside=[Contract("legal", [HELD])])

    run_contracts([Contract("sweeps", [parent()])], ground.url, options=by)

    assert (ground.ids("parent"), ground.ids("grandchild")) == ([2, 9], [200])


def test_a_keep_of_another_contract_holds_rows_of_the_same_table(ground: Ground) -> None:
    ground.run("CREATE TABLE note (id {key}, at {instant}, held {flag})", "CREATE INDEX by_age ON note (at)")
    ground.fill("note", [(1, ago(days=9), False), (2, ago(days=9), True)])
    contracts = [
        Contract("sweeps", [Table("note", [RULE])]),
        Contract("legal", [Table("note", [keep("held", equals=True)])]),
    ]

    run_contracts(contracts, ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert ground.ids("note") == [2]


def test_a_held_row_stays_although_it_is_beyond_a_cap(ground: Ground) -> None:
    ground.run("CREATE TABLE note (id {key}, at {instant}, held {flag})", "CREATE INDEX by_age ON note (at)")
    ground.fill("note", [(n, ago(days=10 - n), n == 2) for n in range(1, 6)])

    report = ground.sweep(Table("note", [cap(2, order_by="at"), keep("held", equals=True)]))

    assert (report.failures, report.counts) == ([], {"note": 2})
    assert ground.ids("note") == [2, 4, 5]


FILE = """
version = 1
[lifecycle.sweeps]
[[lifecycle.sweeps.tables]]
name = "parent"
rules = [{ older_than = "at", keep_for = "7d" }]
children = { "child.parent_id" = "delete_first", "grandchild.child_id" = "delete_first" }
[lifecycle.legal]
[[lifecycle.legal.tables]]
name = "grandchild"
rules = [{ keep = { column = "held", equals = true } }]
"""


def test_the_command_heeds_a_keep_that_is_a_tables_only_rule(
    ground: Ground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(ground)
    ground.fill("grandchild", [(100, 10, False), (200, 20, True), (300, 30, None)])
    file = tmp_path / "lifecycle.toml"
    file.write_text(FILE, encoding="utf-8")

    with pytest.raises(SystemExit) as ended:
        main(["lifecycle", "sweep", "--contract", str(file), "--target", ground.url, "--yes"])

    assert ended.value.code == 0, capsys.readouterr()
    assert (ground.ids("parent"), ground.ids("grandchild")) == ([2], [200])
    assert [contract.name for contract in loads(FILE)] == ["sweeps", "legal"]


NOT_CLEARLY_FALSE = ["true", "TRUE", "t", "yes", "1", "2", "held since May", " ", "falsch", "X"]
CLEARLY_FALSE = ["false", "FALSE", "f", "F", "no", "No", "n", "off", "OFF", "0", "", None]


@pytest.mark.parametrize("is_deep", [False, True], ids=["own", "grandchild"])
def test_a_text_that_is_not_clearly_false_holds(ground: Ground, *, is_deep: bool) -> None:
    values = [*NOT_CLEARLY_FALSE, *CLEARLY_FALSE]
    holding = list(range(1, len(NOT_CLEARLY_FALSE) + 1))
    if is_deep:
        make(ground, flag="text")
        ground.run("DELETE FROM child", "DELETE FROM parent")
        ground.fill("parent", [(n, 1, ago(days=9)) for n, _ in enumerate(values, 1)])
        ground.fill("child", [(n, n) for n, _ in enumerate(values, 1)])
        ground.fill("grandchild", [(n, n, value) for n, value in enumerate(values, 1)])
        ground.sweep(parent(), HELD)
    else:
        ground.run("CREATE TABLE parent (id {key}, at {instant}, held text)", "CREATE INDEX a ON parent (at)")
        ground.fill("parent", [(n, ago(days=9), value) for n, value in enumerate(values, 1)])
        ground.sweep(Table("parent", [RULE, keep("held", equals=True)]))

    assert ground.ids("parent") == holding


def test_the_mirror_image_holds_what_is_not_clearly_true(ground: Ground) -> None:
    values = ["false", "0", "", "perhaps", "true", "Yes", "1", "on", None]
    ground.run("CREATE TABLE note (id {key}, at {instant}, free text)", "CREATE INDEX a ON note (at)")
    ground.fill("note", [(n, ago(days=9), value) for n, value in enumerate(values, 1)])

    ground.sweep(Table("note", [RULE, keep("free", equals=False)]))

    assert ground.ids("note") == [1, 2, 3, 4]


@pytest.mark.parametrize("declared", ["", "TEXT", "INTEGER", "BOOLEAN", "REAL", "BLOB"])
@pytest.mark.parametrize("value", ["true", "1", 1, 1.0, 7, b"yes"])
def test_sqlite_holds_by_value_whatever_the_column_stores(
    sqlite: Ground, declared: str, value: object
) -> None:
    sqlite.run(
        f"CREATE TABLE note (id {{key}}, at {{instant}}, held {declared})", "CREATE INDEX a ON note (at)"
    )
    sqlite.fill("note", [(1, ago(days=9), value), (2, ago(days=9), 0), (3, ago(days=9), 0.0)])

    sqlite.sweep(Table("note", [RULE, keep("held", equals=True)]))

    assert sqlite.ids("note") == [1]


@pytest.mark.parametrize("equals", [5, "5", 5.0])
@pytest.mark.parametrize("declared", ["", "TEXT", "INTEGER"])
def test_sqlite_compares_numbers_and_texts_by_value(sqlite: Ground, declared: str, equals: Any) -> None:  # noqa: ANN401
    sqlite.run(
        f"CREATE TABLE note (id {{key}}, at {{instant}}, kind {declared})", "CREATE INDEX a ON note (at)"
    )
    sqlite.fill(
        "note", [(1, ago(days=9), 5), (2, ago(days=9), "5"), (3, ago(days=9), 6), (4, ago(days=9), None)]
    )

    sqlite.sweep(Table("note", [RULE, keep("kind", equals=equals)]))

    assert sqlite.ids("note") == [1, 2]


@pytest.mark.parametrize(
    ("declared", "equals"),
    [
        ("boolean", "true"),
        ("boolean", 1),
        ("text", 5),
        ("integer", "5"),
        ("numeric", True),
        ("smallint", True),
        ("varchar(9)", "5"),
    ],
)
def test_postgresql_compares_by_the_columns_type(postgres: Ground, declared: str, equals: Any) -> None:  # noqa: ANN401
    held, free = ("true", "false") if declared == "boolean" else ("5", "0")
    postgres.run(
        f"CREATE TABLE note (id bigint PRIMARY KEY, at timestamptz, kind {declared})",
        "CREATE INDEX by_age ON note (at)",
        f"INSERT INTO note VALUES (1, '{ago(days=9)}', '{held}'), (2, '{ago(days=9)}', '{free}'),"  # noqa: S608
        f" (3, '{ago(days=9)}', NULL)",
    )

    report = postgres.sweep(Table("note", [RULE, keep("kind", equals=equals)]))

    assert report.failures == []
    assert postgres.ids("note") == [1]


@pytest.mark.parametrize(("declared", "equals"), [("boolean", "perhaps"), ("integer", "legal")])
def test_a_hold_that_no_value_could_meet_stops_the_rule(postgres: Ground, declared: str, equals: str) -> None:
    postgres.run(
        f"CREATE TABLE note (id bigint PRIMARY KEY, at timestamptz, kind {declared})",
        f"INSERT INTO note VALUES (1, '{ago(days=9)}', NULL)",  # noqa: S608
    )
    table = Table("note", [RULE, keep("kind", equals=equals)])

    report = postgres.sweep(table)

    assert postgres.ids("note") == [1]
    assert report.failures
    assert check([Contract("app", [table])], postgres.url)


def make_partitions(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint, at timestamptz, held text) PARTITION BY RANGE (at)",
        "CREATE TABLE event_old PARTITION OF event FOR VALUES FROM ('2025-01-01') TO ('2025-02-01')",
        "CREATE TABLE event_older PARTITION OF event FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
        "INSERT INTO event VALUES (1, '2025-01-05', NULL), (2, '2024-01-05', 'no'), (3, '2024-01-06', '')",
    )


DROPS = Table("event", [drop_partition("at", keep_for="90d")])
HOLDS = Contract("legal", [Table("event", [keep("held", equals=True)])])


def test_a_held_row_keeps_its_partition(postgres: Ground) -> None:
    make_partitions(postgres)
    postgres.run("UPDATE event SET held = 'court' WHERE id = 1")

    by = SweepOptions(clock=ManualClock(NOW))
    run_contracts([Contract("app", [DROPS]), HOLDS], postgres.url, options=by)

    assert postgres.ids("event") == [1]


def test_a_hold_set_while_the_drop_waits_keeps_the_partition(postgres: Ground) -> None:
    make_partitions(postgres)
    by = SweepOptions(clock=ManualClock(NOW), patience=PATIENT)
    contracts = [Contract("app", [DROPS]), HOLDS]
    with closing(postgres.connect()) as writer, ThreadPoolExecutor() as pool:
        writer.execute("BEGIN")
        writer.execute("UPDATE event SET held = 'court' WHERE id = 1")
        sweeping = pool.submit(run_contracts, contracts, postgres.url, options=by)
        wait_until(lambda: postgres.rows(WAITING) == [(1,)], "the drop waits for the writer")
        writer.execute("COMMIT")
        [report, _] = sweeping.result()

    assert report.failures == []
    assert postgres.ids("event") == [1]
