"""pgqueuer with the best settings that a sweep found; completion is recorded in its log table."""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import uvloop
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.core.qm import QueueManager
from pgqueuer.core.sm import SchedulerManager
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.queries import Queries

from benchmarks.protocol import Contestant, serve

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pgqueuer.domain.models import Job, Schedule

# From the sweep. Its psycopg driver reads notifications and runs statements on one connection: a run takes
# about five seconds longer, whatever the number of jobs, so its rate there says little about steady work.
BATCH = 250
ENQUEUE_CHUNK = 5_000
LATENCY_BATCH = 10
LATENCY_PAUSE = 0.02
# Short, because a drain that finds tasks still running would otherwise sleep until the next notification.
DRAIN_POLL = timedelta(milliseconds=5)
QUIET = timedelta(0)
COMPLETED = "SELECT count(*) AS n FROM pgqueuer_log WHERE status = 'successful'"
RESET = "TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics, pgqueuer_schedules"
SCHEDULES = "SELECT count(*) AS n FROM pgqueuer_schedules"
MAKE_DUE = "UPDATE pgqueuer_schedules SET next_run = now() - interval '1 second'"


class PgQueuer(Contestant):
    """The fastest Python peer known."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._driver_name = "asyncpg"
        self._batch = BATCH

    def setup(self, url: str) -> None:
        """Install its tables, durable ones."""
        self._url = url
        self._run(self._install())

    def open(self, url: str) -> None:
        """A connection for everything but the work itself."""
        self._url = url
        self._queries = self._run(self._connect())

    def tune(self, batch: int, driver: str) -> None:
        """Set what a sweep varies."""
        self._batch, self._driver_name = batch, driver

    def reset(self) -> None:
        """Empty its tables."""
        self._run(self._queries.driver.execute(RESET))

    def enqueue(self, jobs: int) -> None:
        """Its own bulk call, in chunks."""
        self._run(self._enqueue(jobs))

    def ready(self) -> None:
        """Statistics, and a manager with a connection of its own: a run closes the one it was given."""
        self._run(self._queries.driver.execute("ANALYZE pgqueuer"))
        self._manager = self._new_manager(self._run(self._connect()))

    def work(self) -> None:
        """Drain the queue."""
        self._run(
            self._manager.run(
                batch_size=self._batch,
                mode=QueueExecutionMode.drain,
                dequeue_timeout=DRAIN_POLL,
                log_aggregation_interval=QUIET,
            )
        )

    def completed(self) -> int:
        """Jobs in its log as successful."""
        rows = self._run(self._queries.driver.fetch(COMPLETED))
        return int(rows[0]["n"])

    def latency(self, samples: int) -> list[float]:
        """Seconds from the call of enqueue on an idle system to the start of the handler."""
        taken: list[float] = self._run(self._latency(samples))
        return taken

    def seed(self, manifests: int) -> None:
        """Schedules are declared in code and stored when a scheduler starts."""
        self._scheduler = SchedulerManager(self._queries)
        for number in range(manifests):

            @self._scheduler.schedule(f"sync-{number}", "0 * * * *")
            async def sync(_: Schedule) -> None:
                """Do nothing."""

        self._run(self._queries.insert_schedule(self._next_runs()))

    def make_due(self, manifests: int) -> None:
        """Let all come due."""
        if manifests != self._run(self._queries.driver.fetch(SCHEDULES))[0]["n"]:
            raise NotImplementedError
        self._run(self._queries.driver.execute(MAKE_DUE))
        self._run(self._queries.driver.execute("VACUUM ANALYZE pgqueuer_schedules"))

    def tick(self) -> int:
        """One turn of its scheduler's loop: fetch what is due, run it; answers how many that were."""
        return int(self._run(self._tick()))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        return self._runner.run(work)

    async def _install(self) -> None:
        queries = await self._connect()
        await queries.install()

    async def _connect(self) -> Queries:
        if self._driver_name == "asyncpg":
            return Queries(AsyncpgDriver(await asyncpg.connect(self._url)))
        return Queries(PsycopgDriver(await psycopg.AsyncConnection.connect(self._url, autocommit=True)))

    async def _enqueue(self, jobs: int) -> None:
        payloads: list[bytes | None] = [
            f'{{"invoice": {n}, "customer": "c-1001"}}'.encode() for n in range(jobs)
        ]
        for start in range(0, jobs, ENQUEUE_CHUNK):
            chunk = payloads[start : start + ENQUEUE_CHUNK]
            await self._queries.enqueue(["no_op"] * len(chunk), chunk, [0] * len(chunk))

    def _new_manager(self, queries: Queries) -> QueueManager:
        manager = QueueManager(queries)

        @manager.entrypoint("no_op")
        async def no_op(_: Job) -> None:
            """The job."""

        return manager

    def _next_runs(self) -> dict[Any, timedelta]:
        return {key: executor.next_in() for key, executor in self._scheduler.registry.items()}

    async def _tick(self) -> int:
        due = await self._queries.fetch_schedule(self._next_runs())
        registry = {key.entrypoint: executor for key, executor in self._scheduler.registry.items()}
        await asyncio.gather(*(self._scheduler.dispatch(registry[each.entrypoint], each) for each in due))
        return len(due)

    async def _latency(self, samples: int) -> list[float]:
        manager = QueueManager(await self._connect())
        started: asyncio.Queue[float] = asyncio.Queue()

        @manager.entrypoint("no_op")
        async def no_op(_: Job) -> None:
            started.put_nowait(time.perf_counter())

        running = asyncio.create_task(manager.run(batch_size=LATENCY_BATCH))
        taken = [await self._one_pickup(started) for _ in range(samples + 1)]
        manager.shutdown.set()
        await running
        return taken[1:]

    async def _one_pickup(self, started: asyncio.Queue[float]) -> float:
        await asyncio.sleep(LATENCY_PAUSE)
        asked = time.perf_counter()
        await self._queries.enqueue("no_op", b"{}")
        return await asyncio.wait_for(started.get(), timeout=60) - asked


if __name__ == "__main__":
    serve(PgQueuer())
