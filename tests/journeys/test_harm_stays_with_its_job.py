"""Slow hooks, blocked loops and lost answers: no job is repeated or stuck because of them."""

from __future__ import annotations

import signal
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.journeys.apps.rough import Job, app, block_the_loop, end_unstorably, rest, take_the_signals
from tests.journeys.processes import SCALED, fleet
from tests.support.proxy import running_proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.journeys.processes import Fleet
    from tests.support.postgres import ThrowawayServer

pytestmark = pytest.mark.timeout(180)

APP = "tests.journeys.apps.rough:app"
LEASE = 2.0
HEARTBEAT = 0.3
STATES = """
SELECT train_state, count(*) FROM {schema}metadata WHERE name = 'rest'
GROUP BY train_state
"""
FAILURES = "SELECT failure_exception, failure_reason FROM {schema}metadata WHERE name = 'end_unstorably'"
LOST = "SELECT state, count(*) FROM {schema}worker WHERE state = 'lost' GROUP BY state"
SILENCE = "SELECT id, {seconds_since_seen} FROM {schema}worker"
SECONDS_SINCE_SEEN = {
    "": "(julianday('now') - julianday(last_seen_at)) * 86400.0",
    "gandy.": "extract(epoch FROM gandy.now() - last_seen_at)::float8",
}
UNFINISHED = """
SELECT 'queued', count(*) FROM {schema}work_queue WHERE status = 'queued' AND owner = 'rough'
UNION ALL
SELECT 'open', count(*) FROM {schema}metadata
WHERE owner = 'rough' AND train_state IN ('pending', 'in_progress')
"""


def rows(url: str, query: str) -> list[tuple[Any, Any]]:
    """Ask either database."""
    schema = "" if url.startswith("sqlite") else "gandy."
    text = query.format(schema=schema, seconds_since_seen=SECONDS_SINCE_SEEN[schema])
    if not schema:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as link:
            return link.execute(text).fetchall()
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(text.encode()).fetchall()


def completed(url: str, train: str = "rest") -> int:
    """How many runs of a train are on record as completed."""
    return int(dict(rows(url, STATES.replace("rest", train))).get("completed", 0))


def is_over(url: str) -> bool:
    """Whether nothing waits and nothing runs."""
    return not any(count for _, count in rows(url, UNFINISHED))


def executions(ships: Fleet) -> Counter[int]:
    """How often each job has begun."""
    return Counter(int(line.split()[1]) for line in ships.witnessed("begin"))


def repeated(ships: Fleet, jobs: int) -> dict[int, int]:
    """Which of the jobs below a number were not executed exactly once."""
    begun = executions(ships)
    return {number: begun[number] for number in range(jobs) if begun[number] != 1}


def queue_rest(url: str, numbers: range, *, seconds: float = 0.0, retry: bool | None = None) -> None:
    """Queue innocent jobs."""
    jobs = [Job(number=n, seconds=seconds) for n in numbers]
    app.configure({"database": {"url": url}})
    with app as sync:
        sync.enqueue_many(rest, jobs, retry=retry)


def test_ends_are_on_record_at_once_and_outlive_a_shutdown_although_hooks_are_slow(
    migrated_url: str, tmp_path: Path
) -> None:
    with fleet(migrated_url, tmp_path, ROUGH_HOOK_SECONDS="0.6", GANDY_WORKER_SHUTDOWN_GRACE="5s") as ships:
        ships.app = APP
        ships.start_manager()
        worker = ships.start_worker()
        queue_two_waves(migrated_url, first=0)
        wait_until(lambda: len(ships.witnessed("end")) == 30, f"all have run\n{ships.logs()}")
        wait_until(lambda: completed(migrated_url) == 30, "ends do not wait for hooks", within=3 * 1)

        queue_two_waves(migrated_url, first=30)
        wait_until(lambda: len(ships.witnessed("end")) == 60, f"all have run\n{ships.logs()}")
        worker.send_signal(signal.SIGTERM)
        wait_until(lambda: worker.poll() is not None, "the worker has ended", within=3 * 5)

        assert completed(migrated_url) == 60, "a shutdown writes every end first"
        assert repeated(ships, 60) == {}


def queue_two_waves(url: str, *, first: int) -> None:
    """Queue jobs of which the second half ends while the hooks of the first are busy."""
    queue_rest(url, range(first, first + 15))
    queue_rest(url, range(first + 15, first + 30), seconds=0.4)


def test_a_blocked_event_loop_does_not_cost_the_worker_its_lease(migrated_url: str, tmp_path: Path) -> None:
    with fleet(migrated_url, tmp_path, GANDY_WORKER_SLOTS="10", GANDY_WORKER_PREFETCH="20") as ships:
        ships.app = APP
        queue_rest(migrated_url, range(50), seconds=0.01)
        with app as sync:
            sync.enqueue(block_the_loop, Job(number=200, seconds=LEASE * 7 / 4))
        queue_rest(migrated_url, range(50, 200), seconds=0.01)
        ships.start_manager()
        ships.start_worker()
        silences = [0.0]

        def is_over_at_last() -> bool:
            silences.extend(silence for _, silence in rows(migrated_url, SILENCE))
            return is_over(migrated_url)

        wait_until(is_over_at_last, f"every job has ended\n{ships.logs()}", within=60)

        assert max(silences) < LEASE, "the lease is renewed meanwhile, whatever the loop has open"
        assert repeated(ships, 201) == {}, ships.logs()
        assert rows(migrated_url, LOST) == []


def test_an_end_that_cannot_be_stored_repeats_nothing_beside_it(migrated_url: str, tmp_path: Path) -> None:
    with fleet(migrated_url, tmp_path) as ships:
        ships.app = APP
        app.configure({"database": {"url": migrated_url}})
        with app as sync:
            sync.enqueue_many(end_unstorably, [Job(number=n, seconds=0.3) for n in range(30, 33)])
        queue_rest(migrated_url, range(30), seconds=0.3)
        ships.start_manager()
        ships.start_worker()
        wait_until(lambda: is_over(migrated_url), f"every job has ended\n{ships.logs()}", within=3 * 5)

        assert repeated(ships, 33) == {}, ships.logs()
        assert completed(migrated_url) == 30
        failures = sorted((kind, str(reason)[:3]) for kind, reason in rows(migrated_url, FAILURES))
        assert failures == [("ValueError", "caf"), ("ValueError", "lon"), ("ValueError", "nul")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("way", range(3), ids=["ignored", "handled", "without the loop's descriptor"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_ends_on_a_signal_whose_handler_a_job_has_replaced(
    sqlite_url: str, tmp_path: Path, way: int, number: signal.Signals, workers: int
) -> None:
    migrate(sqlite_url)
    with fleet(sqlite_url, tmp_path, GANDY_WORKER_SHUTDOWN_GRACE="60s") as ships:
        ships.app = APP
        app.configure({"database": {"url": sqlite_url}})
        with app as sync:
            sync.enqueue(take_the_signals, Job(number=way))
        process = ships.start("work", "--workers", str(workers))
        wait_until(lambda: completed(sqlite_url, "take_the_signals") == 1, f"it has run\n{ships.logs()}")
        wait_until(lambda: "is put back" in ships.log_of(process), f"it is told\n{ships.logs()}")
        process.send_signal(number)
        wait_until(lambda: process.poll() is not None, f"the process has ended\n{ships.logs()}", within=30)

        assert process.returncode == 0, ships.logs()


@pytest.fixture
def private_url(private_postgres_server: ThrowawayServer) -> Iterator[str]:
    """A migrated database on a server whose connections the test may break."""
    with private_postgres_server.database() as url:
        migrate(url)
        yield url


@pytest.mark.parametrize(
    ("within", "what"),
    [
        pytest.param("dispatched_at = claim.now", "a claim", id="of a claim"),
        pytest.param("lease_expires_at", "a renewal", id="of a renewal"),
        pytest.param("junctions", "an end", id="of an end"),
    ],
)
def test_a_lost_answer_to_a_commit_heals_within_one_renewal(
    within: str, what: str, private_url: str, private_postgres_server: ThrowawayServer, tmp_path: Path
) -> None:
    with (
        running_proxy(private_postgres_server.folder) as proxy,
        fleet(private_url, tmp_path / "calm") as calm,
        fleet(proxy.url(private_url), tmp_path) as ships,
    ):
        ships.app = calm.app = APP
        calm.folder.mkdir()
        calm.start("up", "--services", "manifest-manager")  # a dispatcher would take what the worker shall
        worker = ships.start_worker()
        queue_rest(private_url, range(1))
        wait_until(lambda: completed(private_url) == 1, f"the worker works\n{ships.logs()}")
        worker.send_signal(signal.SIGSTOP)  # so that the next claim takes something
        queue_rest(private_url, range(1, 21), retry=False)
        proxy.lose_commit_answers(1, within=within)
        worker.send_signal(signal.SIGCONT)
        wait_until(lambda: proxy.lost == 1, f"the answer to {what} is lost\n{ships.logs()}")
        wait_until(
            lambda: completed(private_url) == 21,
            f"every job is executed; {rows(private_url, STATES)}\n{ships.logs()}",
            within=3 * (HEARTBEAT + 1.5),
        )

        assert repeated(ships, 21) == {}


def test_the_settings_are_scaled_as_these_tests_count() -> None:
    assert SCALED["GANDY_WORKER_LEASE_FOR"] == f"{LEASE:g}s"
    assert SCALED["GANDY_WORKER_HEARTBEAT_EVERY"] == f"{HEARTBEAT * 1000:g}ms"
