"""APScheduler 3 on its PostgreSQL job store: one scheduler, no queue.

A job's row is removed when it is handed to the thread pool; it leaves no other record, so completed jobs
are those that ran here and whose row is gone.
"""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import queue
import time
from datetime import UTC, datetime, timedelta

import psycopg
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from benchmarks.protocol import Contestant, serve

# From the sweep.
THREADS = 10
LATENCY_PAUSE = 0.02
PATIENCE = 120.0
LOOK_EVERY = 0.025
DUE = "SELECT EXISTS (SELECT FROM apscheduler_jobs WHERE next_run_time <= extract(epoch FROM now()))"
STARTED: queue.SimpleQueue[float] = queue.SimpleQueue()


def no_op(invoice: int, customer: str) -> None:  # noqa: ARG001 it does nothing
    """The job."""
    STARTED.put(time.perf_counter())


class APScheduler3(Contestant):
    """A background scheduler that is paused between measurements."""

    def __init__(self) -> None:
        self._threads = THREADS
        self._enqueued = 0

    def setup(self, url: str) -> None:
        """Its job store makes its table when it starts."""

    def open(self, url: str) -> None:
        """Start it paused, and a connection beside it."""
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._start()

    def close(self) -> None:
        """Stop it; it would look for due jobs once more."""
        self.reset()
        self._scheduler.shutdown()

    def tune(self, threads: int) -> None:
        """Set what a sweep varies."""
        self._threads = threads
        self.close()
        self._start()

    def reset(self) -> None:
        """No job."""
        self._connection.execute("TRUNCATE apscheduler_jobs")
        self._enqueued = 0

    def enqueue(self, jobs: int) -> None:
        """It has no bulk call; a job with no trigger is due at once."""
        for number in range(jobs):
            self._add(number)
        self._enqueued += jobs

    def ready(self) -> None:
        """Statistics; and nothing counted yet."""
        self._connection.execute("ANALYZE apscheduler_jobs")
        while not STARTED.empty():
            STARTED.get()

    def work(self) -> None:
        """Let it run until every job has."""
        self._until_handed_over()
        deadline = time.monotonic() + PATIENCE
        while STARTED.qsize() < self._enqueued and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)

    def completed(self) -> int:
        """Jobs that ran, if their rows are gone."""
        row = self._connection.execute("SELECT count(*) FROM apscheduler_jobs").fetchone()
        return STARTED.qsize() - int(row[0] if row else 0)

    def latency(self, samples: int) -> list[float]:
        """Seconds from the call of add_job on an idle system to the start of the job."""
        while not STARTED.empty():
            STARTED.get()
        self._scheduler.resume()
        taken = [self._one_pickup() for _ in range(samples + 1)]
        self._scheduler.pause()
        return taken[1:]

    def seed(self, manifests: int) -> None:
        """Jobs with a trigger that are all due already."""
        due = datetime.now(tz=UTC) - timedelta(minutes=1)
        for number in range(manifests):
            self._scheduler.add_job(
                no_op, "interval", hours=1, args=(number, "c-1001"), id=f"sync-{number}", next_run_time=due
            )

    def make_due(self, manifests: int) -> None:
        """They are due as seeded."""
        row = self._connection.execute("SELECT count(*) FROM apscheduler_jobs").fetchone()
        if row is None or row[0] != manifests:
            raise NotImplementedError
        self._connection.execute("VACUUM ANALYZE apscheduler_jobs")

    def tick(self) -> int:
        """Let it run until nothing is due; answers how many jobs it ran."""
        self.ready()
        self._until_handed_over()
        return STARTED.qsize()

    def _until_handed_over(self) -> None:
        self._scheduler.resume()
        deadline = time.monotonic() + PATIENCE
        while self._is_any_due() and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
        self._scheduler.pause()

    def _is_any_due(self) -> bool:
        row = self._connection.execute(DUE).fetchone()
        return bool(row and row[0])

    def _one_pickup(self) -> float:
        time.sleep(LATENCY_PAUSE)
        asked = time.perf_counter()
        self._add(1)
        return STARTED.get(timeout=PATIENCE) - asked

    def _add(self, number: int) -> None:
        self._scheduler.add_job(no_op, args=(number, "c-1001"), misfire_grace_time=None)

    def _start(self) -> None:
        store = SQLAlchemyJobStore(url=self._url.replace("postgresql://", "postgresql+psycopg://"))
        self._scheduler = BackgroundScheduler(
            jobstores={"default": store},
            executors={"default": ThreadPoolExecutor(self._threads)},
            job_defaults={"misfire_grace_time": None},
            timezone=UTC,
        )
        self._scheduler.start(paused=True)


if __name__ == "__main__":
    serve(APScheduler3())
