"""Nothing stops for one row: codes of triggers, keys of any type, infinities, NULLs, many poison rows."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, event

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    cap,
    expires,
    keep_last,
    older_than,
    quarantine,
    release,
    run_contracts,
)
from gandy.sweep import Budget
from tests.lifecycle.ground import NOW, ago, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lifecycle.ground import Ground

OLD = older_than("at", keep_for="7d")
OTHERS = Table("other", [OLD])
STATEMENTS_OF_A_BATCH = 8


def make(ground: Ground, key: str = "{key}", rows: int = 20) -> None:
    for name in ("thing", "other"):
        ground.run(f"CREATE TABLE {name} (id {key}, at {{instant}}, is_poison {{flag}})")
        ground.run(f"CREATE INDEX by_age_of_{name} ON {name} (at)")
    if key == "{key}":
        ground.fill("other", [(n, ago(days=9), False) for n in range(1, rows + 1)])


def guard(ground: Ground, code: str = "P0001") -> None:
    """Rows that call themselves poison cannot be deleted."""
    if ground.kind == "sqlite":
        ground.run(
            "CREATE TRIGGER guard BEFORE DELETE ON thing WHEN OLD.is_poison"
            " BEGIN SELECT RAISE(ABORT, 'this row is sacred'); END"
        )
        return
    ground.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION 'this row is sacred' USING ERRCODE = '{code}'; END $$",
        "CREATE TRIGGER guard BEFORE DELETE ON thing FOR EACH ROW WHEN (OLD.is_poison)"
        " EXECUTE FUNCTION refuse()",
    )


@pytest.mark.parametrize("code", ["GX001", "45000", "99999", "P0001", "23514", "22000", "38000", "21000"])
@pytest.mark.parametrize("is_guarded", [False, True], ids=["quick", "guarded"])
def test_a_trigger_with_a_code_of_its_own_stops_one_row(
    postgres: Ground, code: str, *, is_guarded: bool
) -> None:
    make(postgres)
    guard(postgres, code)
    postgres.fill("thing", [(n, ago(days=9), n == 7) for n in range(1, 21)])
    postgres.run("CREATE TABLE note (id bigint PRIMARY KEY, thing_id bigint)")
    postgres.fill("note", [(n, n) for n in range(1, 21)])
    children = {"note.thing_id": "delete_first"} if is_guarded else {}

    report = postgres.sweep(Table("thing", [OLD], triggers=["guard"], children=children), OTHERS)

    assert report.failures == []
    assert (postgres.ids("thing"), postgres.ids("other")) == ([7], [])
    assert postgres.ids("note") == ([7] if is_guarded else list(range(1, 21)))
    [row] = quarantine(postgres.url)
    assert (row.key, row.error.startswith("this row is sacred")) == ((7,), True)
    assert report.rules[0].set_aside == 1


@pytest.mark.parametrize("code", ["42501", "53100", "57P01", "XX000"])
def test_a_fault_of_the_database_is_not_blamed_on_a_row(postgres: Ground, code: str) -> None:
    make(postgres)
    guard(postgres, code)
    postgres.fill("thing", [(n, ago(days=9), n == 7) for n in range(1, 21)])

    report = postgres.sweep(Table("thing", [OLD], triggers=["guard"]), OTHERS)

    assert (len(postgres.ids("thing")), postgres.ids("other")) == (20, [])
    assert [failure.table for failure in report.failures] == ["thing"]
    assert quarantine(postgres.url) == []


KEYS = [
    ("time", "time '00:00' + n * interval '1 second'"),
    ("timetz", "timetz '00:00+00' + n * interval '1 second'"),
    ("interval", "n * interval '1 month 1 second'"),
    ("integer[]", "ARRAY[n, NULL, 3]"),
    ("text[]", "ARRAY['a, \"' || n]"),
    ("int4range", "int4range(n, n + 5)"),
    ("tstzrange", "tstzrange('2000-01-01'::timestamptz + n * interval '1 day', NULL)"),
    ("jsonb", "jsonb_build_object('n', n, 'text', 'a % b')"),
    ("money", "n::money"),
    ("bytea", "decode(lpad(to_hex(n), 8, '0'), 'hex')"),
    ("inet", "'10.0.0.0'::inet + n"),
    ("macaddr", "('08:00:2b:01:02:' || lpad(to_hex(n), 2, '0'))::macaddr"),
    ("bit(8)", "n::bit(8)"),
    ("mood", "(enum_range(NULL::mood))[n]"),
    ("uuid", "('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid"),
    (
        "timestamptz",
        "CASE n WHEN 1 THEN '-infinity' ELSE '2000-01-01'::timestamptz + n * interval '1 day' END",
    ),
    ("timestamp", "'2000-01-01'::timestamp + n * interval '1 day'"),
    ("date", "CASE n WHEN 1 THEN 'infinity' ELSE date '2000-01-01' + n END"),
    ("double precision", "CASE n WHEN 1 THEN 'NaN' ELSE n / 3.0 END"),
    ("numeric", "n / 3.0"),
    ("boolean", "n = 1"),
    ("oid", "n::oid"),
    ("char(9)", "n::text"),
    ("small_text", "('x' || n)::small_text"),
]


@pytest.mark.parametrize(("declared", "expression"), KEYS, ids=[key for key, _ in KEYS])
def test_a_key_of_any_type_is_quarantined_and_walked(
    postgres: Ground, declared: str, expression: str
) -> None:
    rows = 2 if declared == "boolean" else 12
    moods = ", ".join(f"'m{n}'" for n in range(1, rows + 1))
    postgres.run(
        f"CREATE TYPE mood AS ENUM ({moods})", "CREATE DOMAIN small_text AS text CHECK (length(VALUE) < 9)"
    )
    make(postgres, f"{declared} PRIMARY KEY")
    guard(postgres, "GX001")
    for name in ("thing", "other"):
        postgres.run(
            f"INSERT INTO {name} SELECT {expression}, '{ago(days=9)}', n <= 2"  # noqa: S608
            f" FROM generate_series(1, {rows}) AS n"
        )
    contract = Contract("app", [Table("thing", [OLD], triggers=["guard"]), OTHERS], batch=steps_of(5))
    by = SweepOptions(clock=ManualClock(NOW))

    for deleted in ({"thing": rows - 2, "other": rows}, {}):
        [report] = run_contracts([contract], postgres.url, options=by)
        assert report.failures == []
        assert report.counts == {name: count for name, count in deleted.items() if count}
        assert len(quarantine(postgres.url)) == 2

    postgres.run("DROP TRIGGER guard ON thing")
    assert release(postgres.url) == 2
    assert run_contracts([contract], postgres.url, options=by)[0].counts == {"thing": 2}


def test_a_composite_key_is_quarantined(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE thing (a bigint, b text, at {instant}, is_poison {flag}, PRIMARY KEY (a, b))",
        "CREATE INDEX by_age ON thing (at)",
    )
    guard(ground)
    ground.fill("thing", [(n, f"k'é \"{n}", ago(days=9), n == 4) for n in range(1, 9)])

    for deleted in (7, 0):
        report = ground.sweep(Table("thing", [OLD], triggers=["guard"]))
        assert (report.failures, report.deleted) == ([], deleted)
        assert [row.key for row in quarantine(ground.url)] == [(4, "k'é \"4")]


@pytest.mark.parametrize("key", [b"\x00\xff", "text", 2.5, 7])
def test_sqlite_keys_of_any_storage_class_are_quarantined(sqlite: Ground, key: object) -> None:
    sqlite.run("CREATE TABLE thing (id PRIMARY KEY, at TEXT, is_poison INTEGER)")
    guard(sqlite)
    sqlite.fill("thing", [(key, ago(days=9), 1), ("other", ago(days=9), 0), (None, ago(days=9), 0)])

    for _ in range(2):
        report = sqlite.sweep(Table("thing", [OLD], triggers=["guard"]))
        assert report.failures == []
        assert sqlite.ids("thing") == [key]
        assert len(quarantine(sqlite.url)) == 1


@pytest.mark.parametrize(("before", "after"), [("text", "bigint"), ("bigint", "date"), ("text", "uuid")])
def test_a_key_that_changed_its_type_is_ignored(postgres: Ground, before: str, after: str) -> None:
    make(postgres)
    postgres.run(
        "DROP TABLE thing", f"CREATE TABLE thing (id {before} PRIMARY KEY, at timestamptz, is_poison boolean)"
    )
    guard(postgres)
    postgres.fill("thing", [("7", ago(days=9), True)])
    assert postgres.sweep(Table("thing", [OLD], triggers=["guard"])).rules[0].set_aside == 1
    postgres.run(
        "DROP TABLE thing",
        f"CREATE TABLE thing (id {after} PRIMARY KEY, at timestamptz, is_poison boolean)",
    )

    report = postgres.sweep(Table("thing", [OLD], triggers=["guard"]), OTHERS)

    assert report.failures == []
    assert postgres.ids("other") == []
    assert quarantine(postgres.url) == []


@pytest.mark.parametrize("declared", ["timestamptz", "timestamp", "date"])
@pytest.mark.parametrize("budget", [None, 700])
def test_infinities_are_swept_like_any_instant(postgres: Ground, declared: str, budget: int | None) -> None:
    postgres.run(
        f"CREATE TABLE thing (id bigint PRIMARY KEY, at {declared})",
        "CREATE INDEX by_age ON thing (at)",
        "INSERT INTO thing SELECT n, '-infinity' FROM generate_series(1, 1200) AS n",
        "INSERT INTO thing VALUES (1201, 'infinity'), (1202, NULL), (1203, '2001-01-01')",
    )
    contract = Contract(
        "app", [Table("thing", [OLD], triggers=["guard"])], budget=Budget(rows=budget), batch=steps_of(250)
    )

    for _ in range(1 if budget is None else 2):
        [report] = run_contracts([contract], postgres.url, options=SweepOptions(clock=ManualClock(NOW)))
        assert report.failures == []

    assert postgres.ids("thing") == [1201, 1202]


def test_rows_with_a_null_key_are_deleted_on_sqlite(sqlite: Ground) -> None:
    sqlite.run(
        "CREATE TABLE thing (id TEXT PRIMARY KEY, at TEXT, is_poison INTEGER)",
        "CREATE TABLE note (id INTEGER PRIMARY KEY, thing_id TEXT REFERENCES thing (id))",
        "CREATE INDEX by_age ON thing (at)",
    )
    rows = [(None if n % 2 else f"k{n}", ago(days=9), 0) for n in range(1, 1_201)]
    sqlite.fill("thing", [*rows, ("new", ago(days=1), 0), (None, ago(days=1), 0)])
    contract = Contract(
        "app",
        [Table("thing", [OLD], triggers=["guard"], children={"note.thing_id": "delete_first"})],
        batch=steps_of(70),
    )

    [report] = run_contracts([contract], sqlite.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert (report.failures, report.counts) == ([], {"thing": 1_200})
    assert sqlite.rows("SELECT id FROM thing ORDER BY id") == [(None,), ("new",)]


@pytest.mark.parametrize("kind", [cap, keep_last])
def test_a_cap_bounds_rows_whose_key_or_order_is_null(ground: Ground, kind: Any) -> None:  # noqa: ANN401
    ground.run(
        "CREATE TABLE beat (id {key}, tenant text, room text, at {instant})",
        "CREATE INDEX by_tenant ON beat (tenant, room, at)",
    )
    keys = [(tenant, room) for tenant in ("a", "b", None) for room in ("x", None)]
    rows: list[tuple[object, ...]] = []
    for tenant, room in keys:
        dated = [(tenant, room, ago(days=day)) for day in (3, 2, 1)]
        rows += [(tenant, room, None)] * 2 + dated[: 1 if room is None else 3] + [(tenant, room, None)] * 2
    ground.fill("beat", [(n, *row) for n, row in enumerate(rows, 1)])
    table = Table("beat", [kind(2, per=["tenant", "room"], order_by="at")])

    report = ground.sweep(table)

    assert report.failures == []
    left = ground.rows("SELECT tenant, room, at FROM beat")
    for tenant, room in keys:
        mine = [row[2] for row in left if row[:2] == (tenant, room)]
        assert (len(mine), sum(at is not None for at in mine)) == (2, 1 if room is None else 2)
    assert ground.sweep(table).deleted == 0


def test_a_cap_without_a_key_bounds_rows_whose_order_is_null(ground: Ground) -> None:
    ground.run("CREATE TABLE beat (id {key}, at {instant})", "CREATE INDEX by_age ON beat (at)")
    ground.fill("beat", [(n, None) for n in range(1, 8)])

    ground.sweep(Table("beat", [cap(3, order_by="at")]))

    assert ground.ids("beat") == [5, 6, 7]


@contextmanager
def statements() -> Iterator[list[str]]:
    """What is sent to any database meanwhile."""
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("every", [1, 3], ids=["in a row", "scattered"])
@pytest.mark.parametrize("is_guarded", [False, True], ids=["quick", "guarded"])
def test_a_thousand_poison_rows_cost_few_statements(
    postgres: Ground, every: int, *, is_guarded: bool
) -> None:
    make(postgres)
    children = {"note.thing_id": "delete_first"} if is_guarded else {}
    if is_guarded:
        postgres.run("CREATE TABLE note (id bigint PRIMARY KEY, thing_id bigint REFERENCES thing (id))")
        postgres.run("CREATE INDEX by_thing ON note (thing_id)")
    rows = 4_000
    contract = Contract(
        "app", [Table("thing", [OLD], triggers=["guard"], children=children)], batch=steps_of(500)
    )

    def sweep() -> int:
        with statements() as sent:
            [report] = run_contracts([contract], postgres.url, options=SweepOptions(clock=ManualClock(NOW)))
        assert report.failures == []
        return len(sent)

    postgres.fill("thing", [(n, ago(days=9), False) for n in range(1, rows + 1)])
    clean = sweep()
    guard(postgres, "GX001")
    poison = set(range(every, 1_000 * every + 1, every))
    postgres.fill("thing", [(n, ago(days=9), n in poison) for n in range(1, rows + 1)])
    with_poison = sweep()

    assert len(postgres.ids("thing")) == 1_000
    assert with_poison - clean <= 20 * STATEMENTS_OF_A_BATCH


@contextmanager
def work_of_sqlite() -> Iterator[list[int]]:
    """Counts the tens of steps of SQLite's virtual machine, and the statements it is given."""
    work = [0, 0]

    def step() -> int:
        work[0] += 1
        return 0

    def trace(statement: str) -> None:
        work[1] += not statement.startswith("--")  # what a trigger does

    def begin(connection: Any, _record: object) -> None:  # noqa: ANN401
        connection.set_progress_handler(step, 10)
        connection.set_trace_callback(trace)

    event.listen(Engine, "connect", begin)
    try:
        yield work
    finally:
        event.remove(Engine, "connect", begin)


@pytest.mark.parametrize("is_guarded", [False, True], ids=["quick", "guarded"])
@pytest.mark.parametrize("every", [1, 3])
def test_a_thousand_poison_rows_cost_sqlite_little(sqlite: Ground, every: int, *, is_guarded: bool) -> None:
    make(sqlite)
    children = {"note.thing_id": "delete_first"} if is_guarded else {}
    if is_guarded:
        sqlite.run(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, thing_id INTEGER REFERENCES thing (id))",
            "CREATE INDEX by_thing ON note (thing_id)",
        )
    rows, batch = 1_000 * every, 500
    table = Table("thing", [OLD], triggers=["guard"], children=children)
    contract = Contract("app", [table], batch=steps_of(batch))

    def sweep() -> list[int]:
        if is_guarded:
            sqlite.fill("note", [(n, n) for n in range(1, rows + 1)])
        with work_of_sqlite() as work:
            [report] = run_contracts([contract], sqlite.url, options=SweepOptions(clock=ManualClock(NOW)))
        assert report.failures == []
        return work

    run_contracts([contract], sqlite.url)  # the first one makes the tables
    sqlite.fill("thing", [(n, ago(days=9, seconds=n), False) for n in range(1, rows + 1)])
    clean = sweep()[0]
    guard(sqlite)
    sqlite.fill("thing", [(n, ago(days=9, seconds=n), n % every == 0) for n in range(1, rows + 1)])

    steps, sent = sweep()

    assert sqlite.ids("thing") == list(range(every, rows + 1, every))
    assert len(quarantine(sqlite.url)) == 1_000
    assert steps - clean < 20 * clean * batch / rows
    assert sent < rows * (6 if is_guarded else 5)  # each row is tried once, savepoint and trigger included


@pytest.mark.parametrize("mode", ["delete_first", "cascade", "set_null"])
@pytest.mark.parametrize("means", ["ABORT", "FAIL", "ROLLBACK"])
@pytest.mark.parametrize("moment", ["BEFORE", "AFTER"])
def test_a_trigger_may_refuse_a_row_by_any_means_of_sqlite(
    sqlite: Ground, means: str, moment: str, mode: str
) -> None:
    action = {"delete_first": "NO ACTION", "cascade": "CASCADE", "set_null": "SET NULL"}[mode]
    make(sqlite)
    sqlite.run(
        "CREATE TABLE note (id INTEGER PRIMARY KEY,"
        f" thing_id INTEGER REFERENCES thing (id) ON DELETE {action})",
        "CREATE INDEX by_thing ON note (thing_id)",
        f"CREATE TRIGGER guard {moment} DELETE ON thing WHEN OLD.is_poison"
        f" BEGIN SELECT RAISE({means}, 'this row is sacred'); END",
    )
    poison = {3, 4, 17}
    sqlite.fill("thing", [(n, ago(days=9), n in poison) for n in range(1, 21)])
    sqlite.fill("note", [(n, n) for n in range(1, 21)])
    table = Table("thing", [OLD], triggers=["guard"], children={"note.thing_id": mode})

    report = sqlite.sweep(table, OTHERS)

    assert report.failures == []
    assert (sqlite.ids("thing"), sqlite.ids("other")) == (sorted(poison), [])
    assert sorted(row.key for row in quarantine(sqlite.url)) == [(n,) for n in sorted(poison)]
    assert {row.error for row in quarantine(sqlite.url)} == {"this row is sacred"}
    referring = sqlite.rows("SELECT id FROM note WHERE thing_id IS NOT NULL ORDER BY id")
    assert referring == [(n,) for n in sorted(poison)]
    notes = {} if mode == "set_null" else {"note": 17}
    assert report.counts == {"thing": 17, "other": 20, **notes}


def test_the_hundred_and_first_poison_row_stops_nothing(ground: Ground) -> None:
    make(ground)
    guard(ground)
    ground.fill("thing", [(n, ago(days=9), n <= 300) for n in range(1, 601)])

    report = ground.sweep(Table("thing", [OLD], triggers=["guard"]), OTHERS)

    assert report.failures == []
    assert ground.ids("thing") == list(range(1, 301))
    assert report.rules[0].set_aside == 300
    assert ground.sweep(Table("thing", [expires("at", grace="7d")])).counts == {}


def test_a_table_whose_name_needs_quotes_is_swept_row_by_row(postgres: Ground) -> None:
    postgres.run(
        'CREATE TABLE "a % $gandy$ ""thing""" (id bigint PRIMARY KEY, at timestamptz, is_poison boolean)',
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no % of it', 5; END $$",
        'CREATE TRIGGER guard BEFORE DELETE ON "a % $gandy$ ""thing""" FOR EACH ROW WHEN (OLD.is_poison)'
        " EXECUTE FUNCTION refuse()",
    )
    postgres.fill('"a %% $gandy$ ""thing"""', [(n, ago(days=9), n == 3) for n in range(1, 10)])

    report = postgres.sweep(Table('a % $gandy$ "thing"', [OLD], triggers=["guard"]))

    assert (report.failures, report.deleted) == ([], 8)
    assert [row.error for row in quarantine(postgres.url)] == ["no 5 of it"]


def test_a_batch_takes_as_many_statements_for_few_rows_as_for_many(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE thing (id {key}, at {instant})",
        "CREATE TABLE note (id {key}, thing_id bigint REFERENCES thing (id))",
        "CREATE TABLE reply (id {key}, note_id bigint REFERENCES note (id))",
        "CREATE INDEX by_age ON thing (at, id)",
        "CREATE INDEX by_thing ON note (thing_id)",
        "CREATE INDEX by_note ON reply (note_id)",
    )
    table = Table(
        "thing",
        [OLD],
        triggers=["guard"],
        children={"note.thing_id": "delete_first", "reply.note_id": "delete_first"},
    )
    contract = Contract("app", [table], batch=replace(steps_of(500), largest=5_000))
    run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))
    counts = []
    for rows in (20, 400):
        ground.fill("thing", [(n, ago(days=9)) for n in range(rows)])
        ground.fill("note", [(n, n // 2) for n in range(2 * rows)])
        ground.fill("reply", [(n, n // 2) for n in range(4 * rows)])
        with statements() as sent:
            [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))
        assert report.counts == {"thing": rows, "note": 2 * rows, "reply": 4 * rows}
        counts.append(len(sent))

    assert counts[0] == counts[1]
