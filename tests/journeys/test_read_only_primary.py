"""A primary that takes no writes for some seconds, as in a failover: no finished work is thrown away."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.journeys.apps.witness import Job, app, tick_off
from tests.journeys.processes import fleet
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres import ThrowawayServer

JOBS = 500
READ_ONLY_SECONDS = 4.0  # twice the lease of these processes
UNFINISHED = """
SELECT 1 FROM gandy.work_queue WHERE status = 'queued'
UNION ALL SELECT 1 FROM gandy.metadata WHERE train_state IN ('pending', 'in_progress') LIMIT 1
"""

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180), pytest.mark.xdist_group("faults")]


def command(url: str, *commands: str) -> None:
    """Give commands that a read-only server takes, too."""
    with psycopg.connect(url, autocommit=True, options="-c default_transaction_read_only=off") as connection:
        for text in commands:
            connection.execute(text.encode())


@contextmanager
def read_only(url: str) -> Iterator[None]:
    """Have every session of the server refuse writes, those that are open included."""
    command(url, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        command(url, "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")


def is_over(url: str) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        return not connection.execute(UNFINISHED.encode()).fetchall()


def test_a_read_only_primary_costs_no_job_and_no_process(
    private_postgres_server: ThrowawayServer, tmp_path: Path
) -> None:
    with (
        private_postgres_server.database() as url,
        fleet(url, tmp_path, GANDY_WORKER_SLOTS="10") as ships,
    ):
        migrate(url)
        app.configure({"database": {"url": url}})
        with app as sync:
            sync.enqueue_many(tick_off, [Job(number=number, milliseconds=20) for number in range(JOBS)])
        ships.start_manager()
        worker = ships.start_worker()
        wait_until(lambda: len(ships.witnessed("end")) > JOBS // 10, f"jobs end\n{ships.logs()}", within=60)
        with read_only(url):
            begun = time.monotonic()
            wait_until(lambda: time.monotonic() - begun > READ_ONLY_SECONDS, "it lasts", within=30)
        wait_until(lambda: is_over(url), f"all is done\n{ships.logs()}", within=60)

        executions = Counter(int(line.split()[1]) for line in ships.witnessed("begin"))
        assert executions == dict.fromkeys(range(JOBS), 1), ships.logs()
        assert "Traceback" not in ships.log_of(worker), ships.log_of(worker)
