"""Real concurrent connections and processes: what a sweep must not do to those who work beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, expires, older_than, run_contracts
from gandy.lifecycle.database.dialect import LockPatience
from gandy.lifecycle.state.lease import take_lease
from gandy.sweep import Budget
from tests.lifecycle.ground import NOW, ago, ahead, steps_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lifecycle.ground import Ground

LEASES = Table("lease", [expires("expires_at")])
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
PATIENT = SweepOptions(patience=LockPatience(lock=timedelta(seconds=20), statement=timedelta(seconds=20)))


def make_leases(ground: Ground, rows: int) -> None:
    ground.run(
        "CREATE TABLE lease (id {key}, expires_at {instant})", "CREATE INDEX by_expiry ON lease (expires_at)"
    )
    ground.fill("lease", [(n, ago(minutes=rows + 1 - n)) for n in range(1, rows + 1)])


def test_a_lease_renewed_while_the_sweep_waits_for_its_lock_survives(postgres: Ground) -> None:
    make_leases(postgres, 10)
    with closing(postgres.connect()) as owner, ThreadPoolExecutor() as pool:
        owner.execute("BEGIN")
        owner.execute("UPDATE lease SET expires_at = %s WHERE id = 5", [ahead(hours=1)])
        sweeping = pool.submit(postgres.sweep, LEASES, by=PATIENT)
        wait_until(lambda: postgres.rows(WAITING) == [(1,)], "the sweep waits for the row's lock")
        owner.execute("COMMIT")
        report = sweeping.result()

    assert postgres.ids("lease") == [5]
    assert report.counts == {"lease": 9}


def test_a_lease_renewed_while_the_sweep_waits_for_the_file_survives(sqlite: Ground) -> None:
    make_leases(sqlite, 10)
    with closing(sqlite.connect()) as owner, ThreadPoolExecutor() as pool:
        owner.execute("BEGIN IMMEDIATE")
        owner.execute("UPDATE lease SET expires_at = ? WHERE id = 5", [sqlite.value(ahead(hours=1))])
        sweeping = pool.submit(sqlite.sweep, LEASES)
        owner.execute("COMMIT")
        report = sweeping.result()

    assert sqlite.ids("lease") == [5]
    assert report.counts == {"lease": 9}


def test_a_renewed_parent_keeps_its_children_too(postgres: Ground) -> None:
    make_leases(postgres, 3)
    postgres.run("CREATE TABLE note (id bigint PRIMARY KEY, lease_id bigint REFERENCES lease (id))")
    postgres.fill("note", [(10, 1), (20, 2), (30, 3)])
    table = Table("lease", [expires("expires_at")], children={"note.lease_id": "delete_first"})
    with closing(postgres.connect()) as owner, ThreadPoolExecutor() as pool:
        owner.execute("BEGIN")
        owner.execute("UPDATE lease SET expires_at = %s WHERE id = 2", [ahead(hours=1)])
        sweeping = pool.submit(postgres.sweep, table, by=PATIENT)
        wait_until(lambda: postgres.rows(WAITING) == [(1,)], "the sweep waits for the row's lock")
        owner.execute("COMMIT")
        report = sweeping.result()

    assert (postgres.ids("lease"), postgres.ids("note")) == ([2], [20])
    assert report.counts == {"lease": 2, "note": 2}


def test_a_row_that_stays_locked_is_passed_over_and_goes_next_time(postgres: Ground) -> None:
    make_leases(postgres, 40)
    impatient = SweepOptions(patience=LockPatience(lock=timedelta(milliseconds=20)))
    with closing(postgres.connect()) as owner:
        owner.execute("BEGIN")
        owner.execute("SELECT FROM lease WHERE id = 17 FOR UPDATE")
        report = postgres.sweep(LEASES, by=impatient)
    assert postgres.ids("lease") == [17]
    assert report.rules[0].passed_over == 1
    assert report.is_clean

    postgres.sweep(LEASES)

    assert postgres.ids("lease") == []


def test_two_replicas_sweep_at_once_and_every_row_is_counted_once(ground: Ground) -> None:
    make_leases(ground, 2_000)
    contract = Contract("app", [LEASES], batch=steps_of(50))
    together = Barrier(2)

    def replica(_number: int) -> tuple[int, bool]:
        together.wait()
        by = SweepOptions(clock=ManualClock(NOW))
        [report] = run_contracts([contract], ground.url, options=by)
        return report.deleted, report.is_skipped

    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(replica, range(2)))

    assert ground.ids("lease") == []
    assert sum(deleted for deleted, _ in answers) == 2_000
    assert all(deleted == 0 for deleted, is_skipped in answers if is_skipped)


def test_a_sweep_that_lost_its_lease_deletes_nothing_more(ground: Ground) -> None:
    from gandy.lifecycle.state.setup import open_state  # noqa: PLC0415

    make_leases(ground, 100)
    contract = Contract("app", [LEASES], batch=steps_of(10))

    def somebody_takes_over(_scheduler: str, _counts: object) -> None:
        with open_state(ground.url, clock=ManualClock(NOW + timedelta(hours=1))) as session:
            assert take_lease(session, "app") is not None

    by = SweepOptions(clock=ManualClock(NOW), pruned=somebody_takes_over)
    [report] = run_contracts([contract], ground.url, options=by)

    assert len(ground.ids("lease")) == 90
    assert report.counts == {"lease": 10}
    assert "another process holds the lease" in report.failures[0].error


CONTRACT = """
version = 1
[lifecycle.app]
batch = { start = 5, max = 5 }
[[lifecycle.app.tables]]
name = "lease"
rules = [{ expires = "expires_at" }]
"""


def test_a_sweep_killed_in_its_tracks_goes_on_where_it_stopped(ground: Ground, tmp_path: Path) -> None:
    make_leases(ground, 8_000)
    file = tmp_path / "lifecycle.toml"
    file.write_text(CONTRACT, encoding="utf-8")
    command = [sys.executable, "-m", "gandy", "lifecycle", "sweep", "--contract", str(file)]
    process = subprocess.Popen(
        [*command, "--target", ground.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: len(ground.ids("lease")) < 7_900, "the sweep is under way")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    left = ground.ids("lease")
    assert 0 < len(left) < 8_000
    [(cursor,)] = ground.rows("SELECT cursor FROM gandy_lifecycle_rule")
    assert json.loads(cursor)[1] == left[0] - 1
    ground.fill("lease", [(0, ago(days=900))])

    contract = Contract("app", [LEASES], budget=Budget(rows=10))
    [report] = run_contracts([contract], ground.url)
    assert report.counts == {"lease": 10}
    assert ground.ids("lease") == [0, *left[10:]]

    ground.sweep(LEASES)
    assert ground.ids("lease") == []


def test_a_row_inserted_beside_the_sweep_is_not_touched(ground: Ground) -> None:
    make_leases(ground, 50)
    added = iter(range(1000, 1010))

    def insert(_scheduler: str, _counts: object) -> None:
        if (number := next(added, None)) is not None:
            ground.fill("lease", [(number, ahead(minutes=1))])

    contract = Contract("app", [LEASES], batch=steps_of(10))
    run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW), pruned=insert))

    assert ground.ids("lease") == list(range(1000, 1005))


def test_a_child_that_appears_while_its_parent_is_taken_saves_it(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE inbox (id bigint PRIMARY KEY, at timestamptz)",
        "CREATE TABLE reply (id bigint PRIMARY KEY, inbox_id bigint REFERENCES inbox (id))",
    )
    postgres.fill("inbox", [(n, ago(days=9)) for n in range(1, 6)])
    table = Table("inbox", [older_than("at", keep_for="7d", wait_for=["reply.inbox_id"])])
    with closing(postgres.connect()) as writer, ThreadPoolExecutor() as pool:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO reply VALUES (1, 3)")
        sweeping = pool.submit(postgres.sweep, table, by=PATIENT)
        wait_until(lambda: postgres.rows(WAITING) == [(1,)], "the sweep waits for the parent's lock")
        writer.execute("COMMIT")
        report = sweeping.result()

    assert postgres.ids("inbox") == [3]
    assert report.is_clean
    assert postgres.rows("SELECT count(*) FROM gandy_lifecycle_quarantine") == [(0,)]


def test_a_connection_that_is_cut_fails_the_tick_and_the_next_goes_on(postgres: Ground) -> None:
    make_leases(postgres, 100)
    contract = Contract("app", [LEASES], batch=steps_of(10))
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    by = SweepOptions(clock=ManualClock(NOW), pruned=lambda *_: postgres.run(cut))

    [report] = run_contracts([contract], postgres.url, options=by)
    assert (report.counts, len(report.failures)) == ({"lease": 10}, 1)
    assert len(postgres.ids("lease")) == 90

    assert postgres.sweep(LEASES).counts == {"lease": 90}
