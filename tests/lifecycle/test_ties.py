"""Many rows of one instant cost about what as many instants cost, whatever index there is."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, event

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, cap, check, older_than, quarantine, run_contracts
from gandy.lifecycle.driver import lanes as ties
from gandy.sweep import Budget
from tests.lifecycle.ground import NOW, Ground, ago, steps_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.lifecycle.supervisor.report import ContractReport

ROWS = 3_000
BATCH = 100
OLD = older_than("at", keep_for="7d")
KEYS = {"sqlite": ("INTEGER PRIMARY KEY", "TEXT PRIMARY KEY NOT NULL"), "postgresql": ("bigint PRIMARY KEY",)}


@pytest.fixture(autouse=True)
def _short_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several lists for one instant."""
    for has_locks, blocks in ((True, 20), (False, 1_000)):
        monkeypatch.setitem(ties.BLOCKS_AHEAD, has_locks, blocks)


def make(ground: Ground, *, key: str = "{key}", index: str = "at", is_tied: bool = True) -> None:
    ground.run(
        "DROP TABLE IF EXISTS event",
        f"CREATE TABLE event (id {key}, at {{instant}}, note text)",
        f"CREATE INDEX by_age ON event ({index})",
    )
    spread = 0 if is_tied else 1
    name = str if key.startswith("TEXT") else int
    ground.fill("event", [(name(n), ago(days=9, seconds=n * spread), "") for n in range(1, ROWS + 1)])


def sweep(ground: Ground, table: Table, **pace: Any) -> ContractReport:  # noqa: ANN401
    by = pace.pop("by", None) or SweepOptions(clock=ManualClock(NOW))
    contract = Contract("app", [table], batch=steps_of(BATCH), **pace)
    [report] = run_contracts([contract], ground.url, options=by)
    assert report.failures == []
    return report


@contextmanager
def steps_of_sqlite() -> Iterator[list[int]]:
    """Counts the tens of steps that SQLite's virtual machine takes."""
    steps: list[int] = [0]

    def count() -> int:
        steps[0] += 1
        return 0

    def begin(connection: Any, _record: object) -> None:  # noqa: ANN401
        connection.set_progress_handler(count, 10)

    event.listen(Engine, "connect", begin)
    try:
        yield steps
    finally:
        event.remove(Engine, "connect", begin)


@pytest.mark.parametrize("index", ["at", "at, id"])
@pytest.mark.parametrize("key", KEYS["sqlite"])
def test_sqlite_takes_few_more_steps_for_one_instant_than_for_many(
    sqlite: Ground, key: str, index: str
) -> None:
    taken = []
    make(sqlite, key=key, index=index)
    sweep(sqlite, Table("event", [OLD]))  # the first one counts for the confirmation
    for is_tied in (False, True):
        make(sqlite, key=key, index=index, is_tied=is_tied)
        with steps_of_sqlite() as steps:
            assert sweep(sqlite, Table("event", [OLD])).deleted == ROWS
        taken.append(steps[0])

    distinct, tied = taken
    assert distinct < 30 * ROWS  # a delete reads no more than its own batch: all up to the cutoff are 90
    assert tied < 6 * distinct


@pytest.mark.parametrize("index", ["at", "at, id"])
@pytest.mark.parametrize("is_guarded", [False, True], ids=["quick", "guarded"])
def test_postgresql_reads_an_instant_a_few_times_however_many_batches_it_has(
    postgres: Ground, index: str, *, is_guarded: bool
) -> None:
    make(postgres, index=index)
    postgres.run("CREATE TABLE note (id bigint PRIMARY KEY, event_id bigint)", "ANALYZE event")
    children = {"note.event_id": "delete_first"} if is_guarded else {}

    assert sweep(postgres, Table("event", [OLD], children=children)).deleted == ROWS

    statistics = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'event'"
    wait_until(lambda: postgres.rows(statistics) == [(ROWS,)], "the statistics are there")
    [(read,)] = postgres.rows("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'by_age'")
    assert read < 12 * ROWS  # 30 batches, each of which would read it twice


@pytest.mark.parametrize("kind", ["age", "cap"])
@pytest.mark.parametrize("is_guarded", [False, True], ids=["quick", "guarded"])
def test_rows_of_one_instant_that_cannot_go_are_passed(
    ground: Ground, kind: str, *, is_guarded: bool
) -> None:
    make(ground, index="at" if kind == "age" else "note, at")
    ground.run(
        "CREATE TABLE holder (id {key}, event_id bigint REFERENCES event (id))",
        "CREATE INDEX by_event ON holder (event_id)",
    )
    ground.fill("holder", [(n, n) for n in range(5, ROWS, 500)])
    poison = (250, 1_777)
    if ground.kind == "sqlite":
        ground.run(
            f"CREATE TRIGGER guard BEFORE DELETE ON event WHEN OLD.id IN {poison}"
            " BEGIN SELECT RAISE(ABORT, 'this row is sacred'); END"
        )
    else:
        ground.run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'this row is sacred'; END $$",
            f"CREATE TRIGGER guard BEFORE DELETE ON event FOR EACH ROW WHEN (OLD.id IN {poison})"
            " EXECUTE FUNCTION refuse()",
        )
    waits = ["holder.event_id"] if is_guarded else []
    rule = (
        older_than("at", keep_for="7d", wait_for=waits)
        if kind == "age"
        else cap(1, per=["note"], order_by="at", wait_for=waits)
    )
    children = {} if is_guarded else {"holder.event_id": "delete_first"}

    report = sweep(ground, Table("event", [rule], triggers=["guard"], children=children))

    kept = {*poison, *(range(5, ROWS, 500) if is_guarded else ()), *((ROWS,) if kind == "cap" else ())}
    assert ground.ids("event") == sorted(kept)
    assert sorted(row.key for row in quarantine(ground.url)) == [(n,) for n in poison]
    assert report.rules[0].set_aside == len(poison)


@pytest.mark.parametrize("is_guarded", [False, True], ids=["quick", "guarded"])
def test_a_row_that_moves_after_it_was_read_ahead_goes_in_the_same_sweep(
    ground: Ground, *, is_guarded: bool
) -> None:
    make(ground)
    ground.run("CREATE TABLE holder (id {key}, event_id bigint)")
    batches = []

    def touch(_name: str, _counts: object) -> None:
        batches.append(1)
        if len(batches) == 5:
            ground.run("UPDATE event SET note = 'moved' WHERE id % 3 = 0")
            ground.run(f"UPDATE event SET at = '{ground.value(NOW)}' WHERE id = 2999")  # noqa: S608

    by = SweepOptions(clock=ManualClock(NOW), pruned=touch)
    children = {"holder.event_id": "delete_first"} if is_guarded else {}

    report = sweep(ground, Table("event", [OLD], children=children), by=by)

    assert (report.deleted, ground.ids("event")) == (ROWS - 1, [2_999])


def test_a_budget_ends_inside_an_instant_and_the_next_run_goes_on(ground: Ground) -> None:
    make(ground)

    counts = [sweep(ground, Table("event", [OLD]), budget=Budget(rows=1_250)).deleted for _ in range(3)]

    assert counts == [1_250, 1_250, 500]


@pytest.mark.parametrize(
    ("rule", "columns"),
    [(OLD, "at, id"), (cap(5, per=["note"], order_by="at"), "note, at, id")],
    ids=["age", "cap"],
)
def test_the_advised_index_holds_the_key_behind_the_instant(ground: Ground, rule: Any, columns: str) -> None:  # noqa: ANN401
    ground.run("CREATE TABLE event (id {key}, at {instant}, note text)")
    ground.fill("event", [(1, ago(days=9), "")])
    contract = Contract("app", [Table("event", [rule])])

    [finding] = [found for found in check([contract], ground.url) if "no index" in found.message]

    advised = re.search(r"CREATE INDEX .*$", finding.remedy)
    assert advised is not None
    assert advised[0].endswith(f"({columns})")
    ground.run(advised[0])
    assert not any("no index" in found.message for found in check([contract], ground.url))
