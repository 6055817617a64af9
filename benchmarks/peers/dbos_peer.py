"""dbos: workflows on a queue of its system database, one row each, run on its event loop."""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import queue
import time

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSClient

from benchmarks.protocol import Contestant, serve

# From the sweep. Unless told otherwise it polls once a second.
CONCURRENCY = 500
POLL = 0.01
ENQUEUE_CHUNK = 100
LATENCY_PAUSE = 0.02
PATIENCE = 120.0
LOOK_EVERY = 0.025
OPTIONS = {"workflow_name": "no_op", "queue_name": "bench"}
UNFINISHED = "SELECT EXISTS (SELECT FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING'))"
COMPLETED = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"
RESET = "TRUNCATE dbos.workflow_status CASCADE"
STARTED: queue.SimpleQueue[float] = queue.SimpleQueue()


@DBOS.workflow(name="no_op")
async def no_op(invoice: int, customer: str) -> None:  # noqa: ARG001 it does nothing
    """The job."""
    STARTED.put(time.perf_counter())


class DbosPeer(Contestant):
    """A client that enqueues; launched only while it works."""

    def __init__(self) -> None:
        self._concurrency, self._poll = CONCURRENCY, POLL

    def setup(self, url: str) -> None:
        """Migrate its system database."""
        self._url = url
        self._launch()
        DBOS.destroy()

    def open(self, url: str) -> None:
        """A client, and a connection beside it."""
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True)
        address = url.replace("postgresql://", "postgresql+psycopg://")
        self._engine = sqlalchemy.create_engine(address)
        self._client = DBOSClient(system_database_url=url)

    def close(self) -> None:
        """Disconnect."""
        self._client.destroy()

    def tune(self, concurrency: int, poll: float) -> None:
        """Set what a sweep varies."""
        self._concurrency, self._poll = concurrency, poll

    def reset(self) -> None:
        """No workflow."""
        self._connection.execute(RESET)

    def enqueue(self, jobs: int) -> None:
        """It has no bulk call: single ones, many in a transaction."""
        for start in range(0, jobs, ENQUEUE_CHUNK):
            with self._engine.begin() as connection:
                for number in range(start, min(start + ENQUEUE_CHUNK, jobs)):
                    self._client.enqueue_in_transaction(connection, OPTIONS, number, "c-1001")

    def ready(self) -> None:
        """Statistics; and nothing counted yet."""
        self._connection.execute("ANALYZE dbos.workflow_status")
        while not STARTED.empty():
            STARTED.get()

    def work(self) -> None:
        """Launch it, let it run until nothing waits or runs, end it."""
        self._launch()
        deadline = time.monotonic() + PATIENCE
        while self._ask(UNFINISHED) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
        DBOS.destroy()

    def completed(self) -> int:
        """Workflows on record as successful."""
        return self._ask(COMPLETED)

    def latency(self, samples: int) -> list[float]:
        """Seconds from the call of enqueue on an idle system to the start of the workflow."""
        self.ready()
        self._launch()
        taken = [self._one_pickup() for _ in range(samples + 1)]
        DBOS.destroy()
        return taken[1:]

    def _launch(self) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self._url,
                "application_version": "1",
                "log_level": "ERROR",
                "sys_db_pool_size": 20,
            }
        )
        DBOS.launch()
        DBOS.register_queue(
            "bench",
            worker_concurrency=self._concurrency,
            polling_interval_sec=self._poll,
            on_conflict="always_update",
        )

    def _one_pickup(self) -> float:
        time.sleep(LATENCY_PAUSE)
        asked = time.perf_counter()
        self._client.enqueue(OPTIONS, 1, "c-1001")
        return STARTED.get(timeout=PATIENCE) - asked

    def _ask(self, sql: str) -> int:
        row = self._connection.execute(sql.encode()).fetchone()
        return int(row[0]) if row else 0


if __name__ == "__main__":
    serve(DbosPeer())
