"""PgBouncer in transaction mode with its defaults, and Gandy with its own: every job is executed once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.journeys.apps.witness import Job, app, tick_off
from tests.journeys.processes import fleet
from tests.support.pgbouncer import running_pgbouncer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.journeys.processes import Fleet
    from tests.support.pgbouncer import PgBouncer
    from tests.support.postgres import ThrowawayServer

JOBS = 3_000
PREPARED = "prepared statements are off"
#: What Gandy sets for itself, as a stranger who gets the same backend from the pooler sees it.
SETTINGS = (
    "enable_seqscan",
    "enable_hashjoin",
    "enable_mergejoin",
    "jit",
    "TimeZone",
    "array_nulls",
    "lock_timeout",
)

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(240), pytest.mark.xdist_group("faults")]


@pytest.fixture
def pooler(private_postgres_server: ThrowawayServer) -> Iterator[PgBouncer]:
    with running_pgbouncer(private_postgres_server) as pooler:
        yield pooler


@pytest.fixture
def url(private_postgres_server: ThrowawayServer) -> Iterator[str]:
    with private_postgres_server.database() as url:
        migrate(url)
        yield url


def load(url: str, jobs: int) -> None:
    app.configure({"database": {"url": url}})
    with app as sync:
        sync.enqueue_many(tick_off, [Job(number=number, milliseconds=1) for number in range(jobs)])


def executions(ships: Fleet) -> Counter[int]:
    """How often each job was begun, by its own mark."""
    return Counter(int(line.split()[1]) for line in ships.witnessed("begin"))


def is_over(url: str) -> bool:
    return not ask(
        url,
        "SELECT 1 FROM gandy.work_queue WHERE status = 'queued' UNION ALL "
        "SELECT 1 FROM gandy.metadata WHERE train_state IN ('pending', 'in_progress') LIMIT 1",
    )


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        return connection.execute(query.encode()).fetchall()


def test_two_processes_execute_every_job_once_and_leave_no_setting_behind(
    pooler: PgBouncer, url: str, tmp_path: Path
) -> None:
    load(url, JOBS)
    query = "SELECT " + ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    before = ask(pooler.url(url), query)
    with fleet(pooler.url(url), tmp_path) as ships:
        workers = [ships.start_worker() for _ in range(2)]
        wait_until(lambda: is_over(url), f"all is done\n{ships.logs()}", within=120)

        assert executions(ships) == dict.fromkeys(range(JOBS), 1)
        for worker in workers:
            assert ships.log_of(worker).count(PREPARED) == 1, ships.logs()
            assert ships.log_of(worker).count("LISTEN does not work through a pooler") == 1, ships.logs()
            assert "Traceback" not in ships.log_of(worker)
        prepared = ask(pooler.url(url), "SELECT name FROM pg_prepared_statements")
        assert (ask(pooler.url(url), query), prepared) == (before, [])


def test_a_pooler_that_is_restarted_costs_no_job(pooler: PgBouncer, url: str, tmp_path: Path) -> None:
    load(url, JOBS)
    with fleet(pooler.url(url), tmp_path) as ships:
        for _ in range(2):
            ships.start_worker()
        wait_until(lambda: len(executions(ships)) > JOBS // 10, f"jobs run\n{ships.logs()}", within=60)
        pooler.restart()
        wait_until(lambda: is_over(url), f"all is done\n{ships.logs()}", within=120)

        assert executions(ships) == dict.fromkeys(range(JOBS), 1), ships.logs()
