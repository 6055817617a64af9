"""Many jobs, several workers, and all that goes wrong in production: nothing is lost, nothing ends twice."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.journeys.apps.witness import Job, app, hog, share_three_places, tick_off
from tests.journeys.processes import fleet, freeze_mid_run, kill
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gandy import Run
    from tests.journeys.processes import Fleet
    from tests.support.postgres import ThrowawayServer

IS_FULL = bool(os.environ.get("GANDY_TEST_FULL_JOURNEYS"))
JOBS = 20_000 if IS_FULL else 3_000
WORKERS = 4 if IS_FULL else 3
KILLS = 15 if IS_FULL else 4

pytestmark = pytest.mark.timeout(900 if IS_FULL else 240)

UNFINISHED = """
SELECT (SELECT count(*) FROM gandy.work_queue WHERE status = 'queued')
     + (SELECT count(*) FROM gandy.metadata WHERE train_state IN ('pending', 'in_progress'))
"""
BACKENDS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def url(private_postgres_server: ThrowawayServer) -> Iterator[str]:
    """A migrated database on a server that the journey may hurt."""
    with private_postgres_server.database() as url:
        migrate(url)
        yield url


def ask(url: str, query: str) -> int:
    """One number."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0])


def enqueue(url: str, train: Callable[[Job, Run], object], jobs: list[Job]) -> None:
    """Queue jobs through the sync face."""
    app.configure({"database": {"url": url}})
    with app as sync:
        sync.enqueue_many(train, jobs)


def completed(url: str) -> int:
    """How many different jobs are on record as completed."""
    return ask(
        url,
        "SELECT count(DISTINCT input->>'number') FROM gandy.metadata "
        "WHERE train_state = 'completed' AND owner = 'journey' AND manifest_id IS NULL AND input IS NOT NULL",
    )


def is_over(url: str) -> bool:
    """Whether nothing waits and nothing runs; while the database is away, nobody knows."""
    try:
        return ask(url, UNFINISHED) == 0
    except psycopg.OperationalError:
        return False


def test_every_job_completes_once_on_record_whatever_is_killed_restarted_or_frozen(
    url: str, private_postgres_server: ThrowawayServer, tmp_path: Path
) -> None:
    # few slots, so that the faults come while there is work
    with fleet(url, tmp_path, GANDY_WORKER_SLOTS="5") as ships:
        enqueue(url, tick_off, [Job(number=number) for number in range(JOBS)])
        assert ask(url, "SELECT count(*) FROM gandy.work_queue WHERE status = 'queued'") == JOBS
        ships.start_manager()
        workers = [ships.start_worker() for _ in range(WORKERS)]
        frozen = workers[0]
        progress(ships, JOBS // 10)

        freeze_mid_run(ships, frozen)
        for round_ in range(KILLS):
            victim = workers[1 + round_ % (WORKERS - 1)]
            seen = len(ships.witnessed("end"))
            kill(victim)
            workers[workers.index(victim)] = ships.start_worker()
            if round_ == 1:
                private_postgres_server.restart("fast")
            if round_ == 2:
                ask_away(url)
            progress(ships, min(seen + JOBS // (4 * KILLS), JOBS))
        wait_until(lambda: lost_workers(url) > 0, "the frozen worker's lease is found lost", within=60)
        frozen.send_signal(signal.SIGCONT)

        wait_until(lambda: is_over(url), "every job has ended", within=600 if IS_FULL else 180)
        wait_until(lambda: "lost its lease" in ships.log_of(frozen), "the thawed worker knows it was lost")
        wait_until(lambda: "ends refused" in ships.log_of(frozen), "its late ends are refused, and counted")

        assert completed(url) == JOBS, ships.logs()
        assert ask(url, "SELECT count(*) FROM gandy.dead_letter") == 0
        assert ask(url, "SELECT count(*) FROM gandy.metadata WHERE train_state = 'cancelled'") == 0
        assert_each_completion_is_witnessed(ships, url)


def progress(ships: Fleet, jobs: int) -> None:
    """Wait until so many jobs have ended."""
    wait_until(
        lambda: len(ships.witnessed("end")) >= jobs, f"{jobs} jobs have ended\n{ships.logs()}", within=120
    )


def ask_away(url: str) -> None:
    """Kill every backend of the database but our own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BACKENDS.encode())


def lost_workers(url: str) -> int:
    """Workers that somebody found gone."""
    return ask(url, "SELECT count(*) FROM gandy.worker WHERE state = 'lost'")


def assert_each_completion_is_witnessed(ships: Fleet, url: str) -> None:
    """Every execution is an attempt on record, and no claim but its own finished a run."""
    begun = {tuple(line.split()[1:4]) for line in ships.witnessed("begin")}
    ended = {tuple(line.split()[1:4]) for line in ships.witnessed("end")}
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            b"SELECT input->>'number', attempt::text, fence::text, train_state FROM gandy.metadata "
            b"WHERE owner = 'journey' AND name = 'tick_off'"
        ).fetchall()
    on_record = {row[:3] for row in rows}
    finished = {row[:3] for row in rows if row[3] == "completed"}
    assert len(finished) == JOBS, "no job is completed by two attempts"
    assert finished <= ended, "what is completed has really ended, under that very fence"
    assert begun <= on_record, "every execution is an attempt on record"


def test_a_group_at_its_cap_never_has_one_more_on_four_servers(url: str, tmp_path: Path) -> None:
    jobs = 500 if IS_FULL else 150
    with fleet(url, tmp_path) as ships:
        seed(url)
        for _ in range(4):
            ships.start("work", "--concurrency", "2")  # one alone cannot fill the three places
        running = "SELECT count(*) FROM gandy.worker WHERE state = 'running'"
        wait_until(lambda: ask(url, running) == 4, f"four servers are up\n{ships.logs()}", within=60)
        enqueue(url, share_three_places, [Job(number=n, milliseconds=5) for n in range(jobs)])
        wait_until(lambda: is_over(url), f"every job has ended\n{ships.logs()}", within=240)
        assert completed(url) == jobs
        assert len({line.split()[4] for line in ships.witnessed("end")}) > 1, "more than one server took part"
        assert ships.witnessed("fourth") == []


def seed(url: str) -> None:
    """Write the declared groups, as the manager would at its start."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            b"INSERT INTO gandy.manifest_group (owner, name, max_active_jobs) VALUES ('journey', 'three', 3)"
        )


def test_a_junction_that_hogs_the_interpreter_keeps_its_lease(url: str, tmp_path: Path) -> None:
    with fleet(url, tmp_path) as ships:
        enqueue(url, hog, [Job(number=1, milliseconds=6_000)])
        ships.start_manager()
        ships.start_worker()
        wait_until(lambda: is_over(url), f"the job has ended\n{ships.logs()}", within=60)
        assert completed(url) == 1
        assert len(ships.witnessed("begin")) == 1, "it ran once, although it took three times the lease"
        assert lost_workers(url) == 0


def test_a_dead_workers_runs_are_queued_again_within_its_lease_and_a_little(url: str, tmp_path: Path) -> None:
    with fleet(url, tmp_path) as ships:
        enqueue(url, tick_off, [Job(number=n, milliseconds=120_000) for n in range(5)])
        ships.start_manager()
        worker = ships.start_worker()
        wait_until(lambda: len(ships.witnessed("begin")) == 5, "all run")
        kill(worker)
        # lease 2 s, manager every 0.3 s: three times their sum
        wait_until(
            lambda: ask(url, "SELECT count(*) FROM gandy.work_queue WHERE status = 'queued'") == 5,
            "the dead worker's runs are queued again",
            within=3 * 2.6,
        )
        lost = "train_state = 'failed' AND failure_exception = 'WorkerLost'"
        assert ask(url, f"SELECT count(*) FROM gandy.metadata WHERE {lost}") == 5  # noqa: S608 a constant


def test_sigterm_puts_back_what_was_not_begun_and_lets_runs_end(url: str, tmp_path: Path) -> None:
    with fleet(url, tmp_path, GANDY_WORKER_SLOTS="5") as ships:
        enqueue(url, tick_off, [Job(number=n, milliseconds=700) for n in range(60)])
        worker = ships.start_worker()
        wait_until(lambda: len(ships.witnessed("begin")) >= 5, "some run")
        worker.send_signal(signal.SIGTERM)
        wait_until(lambda: worker.poll() is not None, "the worker has ended", within=3 * (3 + 5))
        assert worker.returncode == 0, ships.logs()
        begun, ended = len(ships.witnessed("begin")), len(ships.witnessed("end"))
        assert begun == ended, "what had begun was let end"
        assert ask(url, "SELECT count(*) FROM gandy.metadata WHERE train_state = 'in_progress'") == 0
        assert ask(url, "SELECT count(*) FROM gandy.work_queue WHERE status = 'queued'") == 60 - ended
        assert ask(url, "SELECT count(*) FROM gandy.worker WHERE state = 'stopped'") == 1


def test_sigterm_ends_the_process_in_time_although_the_database_is_frozen(
    url: str, private_postgres_server: ThrowawayServer, tmp_path: Path
) -> None:
    with fleet(url, tmp_path) as ships:
        enqueue(url, tick_off, [Job(number=n, milliseconds=400) for n in range(300)])
        worker = ships.start_worker()
        wait_until(lambda: len(ships.witnessed("begin")) >= 5, "some run")
        with private_postgres_server.frozen():
            worker.send_signal(signal.SIGTERM)
            wait_until(lambda: worker.poll() is not None, "the worker has ended", within=3 * (3 + 5))
        ships.start_manager()
        ships.start_worker()
        wait_until(lambda: is_over(url), f"every job has ended\n{ships.logs()}", within=120)
        assert completed(url) == 300


def test_runs_on_another_server_stop_within_two_seconds_of_an_operators_word(
    url: str, tmp_path: Path
) -> None:
    with fleet(url, tmp_path, GANDY_WORKER_SLOTS="2") as ships:
        enqueue(url, tick_off, [Job(number=n, milliseconds=60_000) for n in range(6)])
        ships.start_worker()
        wait_until(lambda: len(ships.witnessed("begin")) == 2, "two run, the others are held")
        cancelling = ships.start("groups", "cancel", "default", "--yes")
        wait_until(lambda: cancelling.poll() is not None, "the command has ended")
        wait_until(
            lambda: (
                ask(url, "SELECT count(*) FROM gandy.metadata WHERE train_state = 'cancelled'")
                + ask(url, "SELECT count(*) FROM gandy.work_queue WHERE status = 'cancelled'")
                == 6
            ),
            f"all are cancelled\n{ships.logs()}",
            within=3 * 2,
        )
        assert ships.witnessed("end") == []
        assert is_over(url)
