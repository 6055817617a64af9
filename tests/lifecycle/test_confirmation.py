"""A person agrees to what selects rows: once, and again as soon as more may go."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from sqlalchemy import text

from gandy.cli.main import main
from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    cap,
    drop_partition,
    expires,
    keep,
    keep_last,
    older_than,
    plan,
    run_contracts,
    terminal,
)
from gandy.lifecycle.database import postgres as postgres_module
from gandy.lifecycle.database import sqlite as sqlite_module
from gandy.lifecycle.database.target import open_target
from gandy.lifecycle.reports.audit import held_rules
from tests.lifecycle.ground import NOW, Ground, ago

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

    from gandy.lifecycle.contract.rules import Rule
    from gandy.lifecycle.supervisor.report import ContractReport, Held

MANY = 12_000


def make_events(ground: Ground, rows: int = MANY) -> None:
    """Events of which each is a minute older than the one before; most are held."""
    ground.run(
        "CREATE TABLE event (id {key}, k text, hold integer, at {instant}, other {instant})",
        "CREATE INDEX by_at ON event (at)",
        "CREATE INDEX by_other ON event (other)",
        "CREATE INDEX by_k ON event (k, at)",
        "CREATE INDEX by_k_other ON event (k, other)",
    )
    ground.fill("event", events_of(ground.kind, rows))


@cache
def events_of(kind: str, rows: int) -> Sequence[Sequence[object]]:
    """Their rows, as a database of that kind takes them: the same for most tests here."""
    instants = [Ground(kind).value(ago(minutes=n)) for n in range(rows)]
    return [(n, "a", int(n % 100 > 0), at, at) for n, at in enumerate(instants)]


def agreeing(asked: list[Held]) -> SweepOptions:
    def confirm(held: Held) -> bool:
        asked.append(held)
        return True

    return SweepOptions(confirm=confirm)


def waiting(report: ContractReport) -> list[tuple[str, int]]:
    return [(held.table, held.rows) for held in report.held]


HELD = keep("hold", equals=1)
CHANGES: list[tuple[str, list[Rule], list[Rule], bool]] = [
    ("the same", [older_than("at", keep_for="100d")], [older_than("at", keep_for="100d")], False),
    ("other words", [older_than("at", keep_for="9d")], [older_than("at", keep_for="9d", safety="x")], False),
    ("a shorter retention", [older_than("at", keep_for="9d")], [older_than("at", keep_for="1d")], True),
    ("a removed hold", [older_than("at", keep_for="1d"), HELD], [older_than("at", keep_for="1d")], True),
    (
        "another hold",
        [older_than("at", keep_for="1d"), HELD],
        [older_than("at", keep_for="1d"), keep("hold", equals=7)],
        True,
    ),
    ("another column", [older_than("at", keep_for="9d")], [older_than("other", keep_for="1d")], True),
    ("a shorter grace", [expires("at", grace="9d")], [expires("at")], True),
    (
        "a state's shorter retention",
        [terminal("k", states=["a"], at="at", keep_for="9d")],
        [terminal("k", states=["a"], at="at", keep_for="1d")],
        True,
    ),
    (
        "one more state",
        [terminal("k", states=["b"], at="at", keep_for="1d")],
        [terminal("k", states=["a", "b"], at="at", keep_for="1d")],
        True,
    ),
    ("a smaller cap", [cap(MANY, order_by="at")], [cap(10, order_by="at")], True),
    ("another order", [cap(MANY, order_by="at")], [cap(10, order_by="other")], True),
    ("a removed hold of a cap", [keep_last(9, order_by="at"), HELD], [keep_last(9, order_by="at")], True),
]


@pytest.mark.parametrize(("what", "before", "after", "is_asked"), CHANGES, ids=[case[0] for case in CHANGES])
def test_a_change_asks_where_more_rows_may_go(
    ground: Ground, what: str, before: list[Rule], after: list[Rule], is_asked: bool
) -> None:
    make_events(ground)
    assert ground.sweep(Table("event", before)).held == [], what
    left = len(ground.ids("event"))

    [foreseen, *_] = plan([Contract("app", [Table("event", after)])], ground.url, clock=ManualClock(NOW))
    report = ground.sweep(Table("event", after))

    assert bool(report.held) == is_asked
    assert foreseen.needs_confirmation == is_asked or what == "one more state"
    if is_asked:
        assert len(ground.ids("event")) == left


def test_a_removed_wait_asks(ground: Ground) -> None:
    make_events(ground)
    ground.run("CREATE TABLE note (id {key}, event_id bigint)", "CREATE INDEX by_event ON note (event_id)")
    ground.fill("note", [(n, n) for n in range(MANY)])
    rule = older_than("at", keep_for="1d", wait_for=["note.event_id"])
    assert ground.sweep(Table("event", [rule])).held == []

    report = ground.sweep(Table("event", [older_than("at", keep_for="1d")]))

    assert waiting(report) == [("event", MANY - 1440)]


def test_a_longer_retention_and_one_more_hold_ask_nothing(ground: Ground) -> None:
    make_events(ground)
    asked: list[Held] = []
    ground.sweep(Table("event", [older_than("at", keep_for="1d")]), by=agreeing(asked))
    ground.run("DELETE FROM event")
    ground.fill("event", [(n, "a", 0, ago(days=30), None) for n in range(MANY)])

    report = ground.sweep(Table("event", [older_than("at", keep_for="2d"), HELD]))

    assert (len(asked), report.held, report.counts) == (1, [], {"event": MANY})


def test_an_expiry_asks_the_first_time(ground: Ground) -> None:
    make_events(ground)

    report = ground.sweep(Table("event", [expires("at")]))

    assert waiting(report) == [("event", MANY)]
    assert len(ground.ids("event")) == MANY


def test_another_unit_asks(ground: Ground) -> None:
    """Half of the rows in each unit: what was agreed to for one says nothing about the other."""
    ground.run("CREATE TABLE event (id {key}, at bigint)", "CREATE INDEX by_at ON event (at)")
    at = int(ago(days=9).timestamp())
    ground.fill("event", [(n, at) for n in range(10)])
    assert ground.sweep(Table("event", [expires("at")])).counts == {"event": 10}
    ground.fill("event", [(n, at * 1000) for n in range(MANY)])

    assert waiting(ground.sweep(Table("event", [expires("at")]))) == [("event", MANY)]


def test_a_column_that_was_empty_for_a_while_asks_nothing_again(ground: Ground) -> None:
    ground.run("CREATE TABLE event (id {key}, at bigint)", "CREATE INDEX by_at ON event (at)")
    rows = [(n, int(ago(days=9).timestamp())) for n in range(MANY)]
    ground.fill("event", rows)
    asked: list[Held] = []
    ground.sweep(Table("event", [expires("at")]), by=agreeing(asked))
    assert ground.sweep(Table("event", [expires("at")])).warnings != []
    ground.fill("event", rows)

    assert ground.sweep(Table("event", [expires("at")])).counts == {"event": MANY}
    assert len(asked) == 1


def test_rows_that_go_along_from_a_large_table_ask(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE INDEX by_at ON parent (at)",
        "CREATE TABLE child (id {key}, parent_id bigint REFERENCES parent (id) ON DELETE CASCADE)",
        "CREATE INDEX by_parent ON child (parent_id)",
    )
    ground.fill("parent", [(n, ago(days=1)) for n in range(10)])
    ground.fill("child", [(n, n % 10) for n in range(MANY)])

    report = ground.sweep(
        Table("parent", [older_than("at", keep_for="1h")], children={"child.parent_id": "cascade"})
    )

    assert [held.rows for held in report.held] == [MANY]
    assert (len(ground.ids("parent")), len(ground.ids("child"))) == (10, MANY)


def test_partitions_that_were_never_analysed_are_counted(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint, at timestamptz) PARTITION BY RANGE (at)",
        "CREATE TABLE event_old PARTITION OF event FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
        "CREATE TABLE event_new PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
        "INSERT INTO event SELECT n, '2020-06-01' FROM generate_series(1, 12000) AS n",
        "INSERT INTO event VALUES (0, '2026-06-01')",
    )
    table = Table("event", [drop_partition("at", keep_for="90d")])

    [foreseen] = plan([Contract("app", [table])], postgres.url, clock=ManualClock(NOW))
    report = postgres.sweep(table)

    assert (foreseen.rows, foreseen.needs_confirmation) == (MANY, True)
    assert waiting(report) == [("event", MANY)]
    assert postgres.rows("SELECT count(*) FROM event") == [(MANY + 1,)]


def test_a_table_whose_statistics_are_far_too_low_is_counted(postgres: Ground) -> None:
    """Many empty texts: without statistics the planner believes in an eighth of the rows."""
    texts = ", ".join(f"t{n} text DEFAULT ''" for n in range(40))
    postgres.run(
        f"CREATE TABLE event (id bigint PRIMARY KEY, at timestamptz, {texts})"
        " WITH (autovacuum_enabled = false)",
        "CREATE INDEX by_at ON event (at)",
        "INSERT INTO event (id, at) SELECT n, '2020-06-01' FROM generate_series(1, 12000) AS n",
    )

    assert waiting(postgres.sweep(Table("event", [older_than("at", keep_for="1d")]))) == [("event", MANY)]


def test_a_column_that_was_never_analysed_is_counted(postgres: Ground) -> None:
    make_events(postgres)
    postgres.run("ANALYZE event", "ALTER TABLE event ADD COLUMN died_at timestamptz DEFAULT '2020-01-01'")
    postgres.run("CREATE INDEX by_death ON event (died_at)")

    report = postgres.sweep(Table("event", [older_than("died_at", keep_for="1d")]))

    assert waiting(report) == [("event", MANY)]


def test_what_cannot_be_counted_in_time_is_asked_for(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager  # noqa: PLC0415

    @contextmanager
    def too_slow(_self: object, _connection: Connection, _longest: timedelta) -> Iterator[None]:
        yield
        raise TimeoutError

    make_events(ground, 20)
    monkeypatch.setattr(postgres_module.Postgres, "counting", too_slow)
    monkeypatch.setattr(sqlite_module.Sqlite, "counting", too_slow)

    report = ground.sweep(Table("event", [older_than("at", keep_for="1m")]))

    assert [held.is_counted for held in report.held] == [False]
    assert len(ground.ids("event")) == 20


def test_a_count_is_broken_off_and_what_follows_is_not_limited(ground: Ground) -> None:
    endless = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"
    ground.run("CREATE TABLE event (id {key})")
    with open_target(ground.url) as session, session.reading() as connection:
        with (
            pytest.raises(TimeoutError),
            session.dialect.counting(connection, timedelta(milliseconds=20)),
        ):
            connection.execute(text(endless))

        if ground.kind == "postgresql":
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "0"
        assert connection.execute(text("SELECT 1")).scalar_one() == 1


FIRST_VERSION = """
    CREATE TABLE gandy_lifecycle_rule (scheduler VARCHAR NOT NULL, table_name VARCHAR NOT NULL,
    rule VARCHAR NOT NULL, shape VARCHAR NOT NULL, accepted BIGINT, cutoff {instant}, cursor VARCHAR,
    deleted BIGINT NOT NULL, backlog BIGINT NOT NULL, measured_at {instant}, lag_seconds FLOAT,
    arriving_per_hour FLOAT, removed_per_hour FLOAT, held_rows BIGINT,
    PRIMARY KEY (scheduler, table_name, rule))
"""


def leave_as_first_version(ground: Ground, accepted: timedelta, rule: str = "older_than:at") -> None:
    """What a database holds that the first version swept, whose agreement was a number."""
    ground.sweep(Table("event", [older_than("other", keep_for="9999d")]), name="other")
    ground.run("DROP TABLE gandy_lifecycle_rule", FIRST_VERSION)
    kind = "timestamp with time zone" if ground.kind == "postgresql" else "textT"
    milliseconds = accepted // timedelta(milliseconds=1)
    shape = f"{rule}|{kind}|id"
    ground.fill(
        "gandy_lifecycle_rule",
        [("app", "event", rule, shape, milliseconds, *[None] * 2, 5, 0, ago(days=1), *[None] * 4)],
    )


@pytest.mark.parametrize(
    ("rule", "key"),
    [(older_than("at", keep_for="1d"), "older_than:at"), (expires("at", grace="1d"), "expires:at")],
)
def test_an_upgrade_asks_nothing_by_itself(ground: Ground, rule: Rule, key: str) -> None:
    make_events(ground)
    leave_as_first_version(ground, timedelta(days=1), key)
    contract = Contract("app", [Table("event", [rule])], database=ground.url)

    [foreseen] = plan([contract], ground.url, clock=ManualClock(NOW))
    assert held_rules(contract) == []
    report = ground.sweep(*contract.tables)

    assert (foreseen.needs_confirmation, foreseen.rows) == (False, MANY - 1440)
    assert (report.held, report.counts) == ([], {"event": MANY - 1440})
    assert ground.rows("SELECT deleted FROM gandy_lifecycle_rule") == [(MANY - 1440 + 5,)]


def test_what_the_first_version_agreed_to_does_not_cover_less(ground: Ground) -> None:
    make_events(ground)
    leave_as_first_version(ground, timedelta(days=2))

    assert ground.sweep(Table("event", [older_than("at", keep_for="1d")])).held != []


def test_an_agreement_under_the_first_version_covers_its_holds_from_then_on(ground: Ground) -> None:
    make_events(ground)
    leave_as_first_version(ground, timedelta(days=1))
    assert ground.sweep(Table("event", [older_than("at", keep_for="1d"), HELD])).held == []

    assert ground.sweep(Table("event", [older_than("at", keep_for="1d")])).held != []


def test_a_rule_that_is_no_longer_held_is_not_shown_as_held(ground: Ground) -> None:
    make_events(ground)
    long = Contract("app", [Table("event", [older_than("at", keep_for="100d")])], database=ground.url)
    ground.sweep(*long.tables)
    ground.sweep(Table("event", [older_than("at", keep_for="1h")]))
    assert [held.rows for held in held_rules(long)] == [MANY - 60]

    ground.sweep(*long.tables)

    assert held_rules(long) == []


@pytest.mark.parametrize(("options", "status", "left"), [([], 1, MANY), (["--yes"], 0, 0)])
def test_the_command_holds_an_expiry_back_without_a_terminal(
    ground: Ground, tmp_path: Path, options: list[str], status: int, left: int
) -> None:
    make_events(ground)
    file = tmp_path / "lifecycle.toml"
    file.write_text(
        'version = 1\n[lifecycle.app]\n[[lifecycle.app.tables]]\nname = "event"\n'
        'rules = [{ expires = "at" }]\n'
    )
    arguments = ["lifecycle", "sweep", "--contract", str(file), "--target", ground.url, *options]

    result = CliRunner().invoke(main, arguments)

    assert (result.exit_code, len(ground.ids("event"))) == (status, left), result.output
    if status:
        [report] = json.loads(result.stdout)
        assert [held["rows"] for held in report["held"]] == [MANY]


def test_one_rule_that_is_held_back_does_not_stop_another(ground: Ground) -> None:
    make_events(ground)
    ground.run("CREATE TABLE small (id {key}, at {instant})")
    ground.fill("small", [(1, ago(days=1))])
    contract = Contract("app", [Table("event", [expires("at")]), Table("small", [expires("at")])])

    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert (len(report.held), report.counts) == (1, {"small": 1})
