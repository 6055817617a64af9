# ruff: noqa: S608  # the names are those of this test
"""What writers commit beside a sweep, for every kind of key: judged by what they wrote down themselves."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    cap,
    keep,
    keep_last,
    older_than,
    run_contracts,
    stale_cursor,
)
from gandy.lifecycle.database.dialect import LockPatience
from tests.lifecycle.ground import NOW, ago, steps_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
PATIENT = SweepOptions(patience=LockPatience(lock=timedelta(seconds=20), statement=timedelta(seconds=20)))
MODES = ("wait_for", "delete_first", "cascade", "set_null")


@dataclass(frozen=True)
class Key:
    """How a child refers to its parent: by one column or by two, under which constraint."""

    name: str
    constraint: str
    is_composite: bool = False
    modes: tuple[str, ...] = ("wait_for", "delete_first", "set_null")

    @property
    def columns(self) -> str:
        return "tenant, parent_id" if self.is_composite else "parent_id"

    def make(self, ground: Ground) -> None:
        refers = "(tenant, id)" if self.is_composite else "(id)"
        constraint = (
            f", FOREIGN KEY ({self.columns}) REFERENCES parent_{self.name} {refers} {self.constraint}"
            if self.name != "none"
            else ""
        )
        ground.run(
            f"CREATE TABLE parent_{self.name} (id {{key}}, tenant bigint NOT NULL, at {{instant}},"
            " UNIQUE (tenant, id))",
            f"CREATE TABLE child_{self.name} (id {{key}}, tenant bigint, parent_id bigint, held {{flag}}"
            f"{constraint})",
            f"CREATE INDEX parents_{self.name} ON parent_{self.name} (at, id)",
            f"CREATE INDEX children_{self.name} ON child_{self.name} ({self.columns})",
        )

    def table(self, mode: str) -> Table:
        reference = f"child_{self.name}.{self.columns.replace(' ', '')}"
        waits = [reference] if mode == "wait_for" else []
        children = {} if mode == "wait_for" else {reference: mode}
        rule = older_than("at", keep_for="7d", wait_for=waits)
        return Table(f"parent_{self.name}", [rule], children=children)


KEYS = [
    Key("no_action", ""),
    Key("restrict", "ON DELETE RESTRICT"),
    Key("cascade", "ON DELETE CASCADE", modes=MODES),
    Key("set_null", "ON DELETE SET NULL"),
    Key("deferred", "DEFERRABLE INITIALLY DEFERRED"),
    Key("composite", "ON DELETE CASCADE", is_composite=True, modes=("wait_for", "delete_first", "cascade")),
    Key("none", ""),
]
CASES = [pytest.param(key, mode, id=f"{key.name}-{mode}") for key in KEYS for mode in key.modes]


def sweep(ground: Ground, *tables: Table, rows: int = 10) -> ContractReport:
    by = SweepOptions(clock=ManualClock(NOW), patience=PATIENT.patience)
    [report] = run_contracts([Contract("app", tables, batch=steps_of(rows))], ground.url, options=by)
    # Two writers without a pause may keep SQLite's only lock for longer than a sweep waits for it.
    errors = {failure.error for failure in report.failures}
    assert errors <= ({"database is locked"} if ground.kind == "sqlite" else set()), errors
    return report


@contextmanager
def swept_beside(ground: Ground, *tables: Table) -> Iterator[tuple[Any, list[ContractReport]]]:
    """A writer's open transaction, and the sweep that waits for it; the report is there at the end."""
    reports: list[ContractReport] = []
    with closing(ground.connect()) as writer, ThreadPoolExecutor() as pool:
        writer.execute("BEGIN" if ground.kind == "postgresql" else "BEGIN IMMEDIATE")
        yield writer, reports
        sweeping = pool.submit(sweep, ground, *tables)
        if ground.kind == "postgresql":
            wait_until(lambda: ground.rows(WAITING) == [(1,)], "the sweep waits for the writer")
        writer.execute("COMMIT")
        reports.append(sweeping.result())


@pytest.mark.parametrize(("key", "mode"), CASES)
def test_a_child_committed_while_the_sweep_waits_is_seen(ground: Ground, key: Key, mode: str) -> None:
    key.make(ground)
    ground.fill(f"parent_{key.name}", [(n, 7, ago(days=9)) for n in range(1, 6)])
    lock = "FOR KEY SHARE" if ground.kind == "postgresql" else ""

    with swept_beside(ground, key.table(mode)) as (writer, reports):
        writer.execute(f"SELECT id FROM parent_{key.name} WHERE id = 3 {lock}")
        writer.execute(f"INSERT INTO child_{key.name} VALUES (30, 7, 3, NULL)")

    parents, children = ground.ids(f"parent_{key.name}"), ground.rows(f"SELECT * FROM child_{key.name}")
    if mode == "wait_for":
        assert (parents, len(children)) == ([3], 1)
    elif mode == "set_null":
        assert (parents, [row[2] for row in children]) == ([], [None])
    else:
        assert (parents, children) == ([], [])
        assert reports[0].counts == {f"parent_{key.name}": 5, f"child_{key.name}": 1}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_child_that_is_rolled_back_holds_nothing(postgres: Ground, key: Key) -> None:
    key.make(postgres)
    postgres.fill(f"parent_{key.name}", [(n, 7, ago(days=9)) for n in range(1, 6)])

    with swept_beside(postgres, key.table("wait_for")) as (writer, reports):
        writer.execute("SAVEPOINT before_child")
        writer.execute(f"SELECT id FROM parent_{key.name} WHERE id = 3 FOR KEY SHARE")
        writer.execute("SELECT id FROM parent_" + key.name + " WHERE id = 4 FOR UPDATE")
        writer.execute(f"INSERT INTO child_{key.name} VALUES (30, 7, 3, NULL)")
        writer.execute("ROLLBACK TO before_child")
        writer.execute(f"SELECT id FROM parent_{key.name} WHERE id = 4 FOR UPDATE")

    assert postgres.ids(f"parent_{key.name}") == []
    assert reports[0].counts == {f"parent_{key.name}": 5}


@pytest.mark.parametrize(
    ("key", "mode"),
    [case for case in CASES if "delete_first" in str(case.id) or "-cascade" in str(case.id)],
)
def test_a_hold_set_on_a_child_while_the_sweep_waits_holds(ground: Ground, key: Key, mode: str) -> None:
    key.make(ground)
    ground.fill(f"parent_{key.name}", [(n, 7, ago(days=9)) for n in range(1, 6)])
    ground.fill(f"child_{key.name}", [(10 * n, 7, n, None) for n in range(1, 6)])
    holds = Table(f"child_{key.name}", [keep("held", equals=True)])

    with swept_beside(ground, key.table(mode), holds) as (writer, reports):
        writer.execute(
            f"UPDATE child_{key.name} SET held = {'true' if ground.kind != 'sqlite' else 1} WHERE id = 30"
        )

    assert (ground.ids(f"parent_{key.name}"), ground.ids(f"child_{key.name}")) == ([3], [30])
    assert reports[0].counts == {f"parent_{key.name}": 4, f"child_{key.name}": 4}


def test_a_parent_renewed_while_the_sweep_waits_for_its_child_keeps_the_child(postgres: Ground) -> None:
    key = KEYS[2]
    key.make(postgres)
    postgres.fill("parent_cascade", [(n, 7, ago(days=9)) for n in range(1, 4)])
    postgres.fill("child_cascade", [(10 * n, 7, n, None) for n in range(1, 4)])

    with swept_beside(postgres, key.table("cascade")) as (writer, reports):
        writer.execute("UPDATE parent_cascade SET at = %s WHERE id = 2", [NOW])

    assert (postgres.ids("parent_cascade"), postgres.ids("child_cascade")) == ([2], [20])
    assert reports[0].counts == {"parent_cascade": 2, "child_cascade": 2}


def test_a_database_whose_default_is_repeatable_read_is_asked_again_too(postgres: Ground) -> None:
    key = KEYS[2]
    key.make(postgres)
    postgres.fill("parent_cascade", [(n, 7, ago(days=9)) for n in range(1, 4)])
    [(name,)] = postgres.rows("SELECT current_database()")
    postgres.run(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")

    with swept_beside(postgres, key.table("wait_for")) as (writer, _reports):
        writer.execute("INSERT INTO child_cascade VALUES (20, 7, 2, NULL)")

    assert (postgres.ids("parent_cascade"), postgres.ids("child_cascade")) == ([2], [20])


@pytest.mark.parametrize("kind", [cap, keep_last])
def test_a_cap_counts_again_once_its_rows_are_locked(postgres: Ground, kind: Any) -> None:  # noqa: ANN401
    postgres.run(
        "CREATE TABLE beat (id bigint PRIMARY KEY, tenant bigint, at timestamptz)",
        "CREATE INDEX by_tenant ON beat (tenant, at, id)",
    )
    postgres.fill("beat", [(n, 1, ago(days=9 - n)) for n in range(1, 6)])

    with swept_beside(postgres, Table("beat", [kind(2, per=["tenant"], order_by="at")])) as (writer, reports):
        writer.execute("DELETE FROM beat WHERE id > 3")
        writer.execute("SELECT id FROM beat WHERE id = 1 FOR UPDATE")

    assert postgres.ids("beat") == [2, 3]
    assert reports[0].counts == {"beat": 1}


def test_a_cursor_that_the_log_needs_again_stays(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE log (id bigint PRIMARY KEY, at timestamptz)",
        "CREATE TABLE reader (id bigint PRIMARY KEY, at timestamptz)",
        "CREATE INDEX by_age ON log (at)",
        "CREATE INDEX by_progress ON reader (at, id)",
    )
    postgres.fill("reader", [(n, ago(days=9)) for n in range(1, 4)])
    rule = stale_cursor("at", keep_for="7d", log="log", log_at="at")

    with swept_beside(postgres, Table("reader", [rule])) as (writer, _reports):
        writer.execute("SELECT id FROM reader WHERE id = 2 FOR UPDATE")
        writer.execute("INSERT INTO log VALUES (1, %s)", [ago(days=10)])

    assert postgres.ids("reader") == [1, 2, 3]


WRITER = """
import random, sqlite3, sys
import psycopg

url, seed, mode, *kinds = sys.argv[1:]
generator = random.Random(int(seed))
if url.startswith("sqlite"):
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)
    connection.execute("PRAGMA foreign_keys = ON")
    begin, mark, lock, failure = "BEGIN IMMEDIATE", "?", "", sqlite3.IntegrityError
else:
    connection = psycopg.connect(url, autocommit=True)
    begin, mark, lock, failure = "BEGIN", "%s", "FOR KEY SHARE", psycopg.IntegrityError
print("ready", flush=True)
sys.stdin.readline()
for number in range(80):
    kind, parent = generator.choice(kinds), generator.randrange(1, 41)
    child = int(seed) * 1000 + number
    connection.execute(begin)
    try:
        parents = f"SELECT tenant FROM parent_{kind} WHERE id = {mark} {lock}"
        found = connection.execute(parents, [parent]).fetchall()
        if kind != "none" or found:
            connection.execute(
                f"INSERT INTO child_{kind} VALUES ({mark}, 7, {mark}, NULL)", [child, parent]
            )
            connection.execute("COMMIT")
            print(kind, child, parent, flush=True)
        else:
            connection.execute("ROLLBACK")
    except failure:
        connection.execute("ROLLBACK")
"""


def write_beside(
    ground: Ground, mode: str, kinds: list[str], *, tables: list[Table]
) -> set[tuple[str, int, int]]:
    """Two processes insert children of random parents while the sweep goes on; what they committed."""
    command = [sys.executable, "-c", WRITER, ground.url]
    writers = [
        subprocess.Popen(
            [*command, str(seed), mode, *kinds], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for seed in (1, 2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    sweep(ground, *tables, rows=5)
    logs = [writer.communicate()[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    lines = [line.split() for log in logs for line in log.splitlines()]
    return {(kind, int(child), int(parent)) for kind, child, parent in lines}


@pytest.mark.parametrize("mode", MODES)
def test_no_committed_row_is_lost_beside_writers(ground: Ground, mode: str) -> None:
    keys = [key for key in KEYS if mode in key.modes]
    for key in keys:
        key.make(ground)
        ground.fill(f"parent_{key.name}", [(n, 7, ago(days=9)) for n in range(1, 41)])

    committed = write_beside(
        ground, mode, [key.name for key in keys], tables=[key.table(mode) for key in keys]
    )

    assert committed
    for key in keys:
        written = {(child, parent) for kind, child, parent in committed if kind == key.name}
        parents = set(ground.ids(f"parent_{key.name}"))
        found = {row[0]: row[1] for row in ground.rows(f"SELECT id, parent_id FROM child_{key.name}")}
        if mode == "wait_for":
            assert set(found.items()) == written
            assert {parent for _, parent in written} <= parents
        elif mode == "set_null":
            assert set(found) == {child for child, _ in written}
            assert set(found.values()) - {None} <= parents
        else:
            assert {(child, parent) for child, parent in written if parent in parents} == set(found.items())


def test_a_chain_of_rows_that_wait_for_each_other_goes_in_one_sweep(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE step (id {key}, before_id bigint REFERENCES step (id), at {instant})",
        "CREATE INDEX by_age ON step (at, id)",
        "CREATE INDEX by_before ON step (before_id)",
    )
    ground.fill("step", [(n, n - 1 or None, ago(days=9 if n < 6 else 1)) for n in range(1, 7)])
    ground.fill("step", [(n, n - 1 if n > 11 else None, ago(days=9)) for n in range(11, 18)])

    report = sweep(ground, Table("step", [older_than("at", keep_for="7d", wait_for=["step.before_id"])]))

    assert ground.ids("step") == [1, 2, 3, 4, 5, 6]
    assert report.counts == {"step": 7}


def test_rows_of_several_partitions_are_locked_and_deleted(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint, at timestamptz, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE event_old PARTITION OF event FOR VALUES FROM ('2020-01-01') TO ('2026-02-20')",
        "CREATE TABLE event_new PARTITION OF event FOR VALUES FROM ('2026-02-20') TO ('2030-01-01')",
        "CREATE TABLE note (id bigint PRIMARY KEY, event_id bigint, event_at timestamptz,"
        " FOREIGN KEY (event_id, event_at) REFERENCES event (id, at) ON DELETE CASCADE)",
        "CREATE INDEX by_age ON event (at, id)",
        "CREATE INDEX by_event ON note (event_id, event_at)",
    )
    rows = [(n, ago(days=20 - n)) for n in range(1, 20)]
    postgres.fill("event", rows)
    postgres.fill("note", [(n, n, at) for n, at in rows])

    report = sweep(
        postgres,
        Table("event", [older_than("at", keep_for="5d")], children={"note.event_id,event_at": "cascade"}),
    )

    assert postgres.ids("event") == postgres.ids("note") == [16, 17, 18, 19]
    assert report.counts == {"event": 15, "note": 15}
