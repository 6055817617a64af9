"""procrastinate: one job a statement, several at a time; its periodic tasks; its removal of old jobs."""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from procrastinate import App, PsycopgConnector
from procrastinate.periodic import PeriodicDeferrer

from benchmarks.peers.asynchronous import AsynchronousPeer
from benchmarks.protocol import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# From the sweep.
CONCURRENCY = 20
ENQUEUE_CHUNK = 1_000
RETENTION_HOURS = 24
FILL = """
SET session_replication_role = replica;
INSERT INTO procrastinate_jobs (id, queue_name, task_name, args, status, attempts)
SELECT n, 'default', 'no_op', '{{"invoice": 1, "customer": "c-1001"}}', 'succeeded', 1
FROM generate_series(1, 2 * {runs}) n;
INSERT INTO procrastinate_events (job_id, type, at)
SELECT n, type::procrastinate_job_event_type,
       now() - CASE WHEN n <= {runs} THEN interval '2 days' ELSE interval '0' END
FROM generate_series(1, 2 * {runs}) n, unnest(ARRAY['deferred', 'started', 'succeeded']) type;
SET session_replication_role = DEFAULT;
"""


class Procrastinate(AsynchronousPeer):
    """An application with one task."""

    reset_sql = "TRUNCATE procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers CASCADE"
    unfinished_sql = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"
    completed_sql = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"

    def __init__(self) -> None:
        super().__init__()
        self._concurrency = CONCURRENCY
        # It would warn that its module is the main one, which is so in all of these processes.
        logging.getLogger("procrastinate").setLevel(logging.ERROR)

    def tune(self, concurrency: int) -> None:
        """Set what a sweep varies."""
        self._concurrency = concurrency

    def reset(self) -> None:
        """No job, no periodic task."""
        super().reset()
        self._app.periodic_registry.periodic_tasks.clear()

    def seed(self, manifests: int) -> None:
        """Periodic tasks are declared in code, under an id each."""
        for number in range(manifests):
            self._app.periodic(cron="* * * * *", periodic_id=f"sync-{number}")(self._sync)

    def make_due(self, manifests: int) -> None:
        """All are due every minute; a deferrer that has just started owes the last one."""
        if manifests != len(self._app.periodic_registry.periodic_tasks):
            raise NotImplementedError
        self._deferrer = PeriodicDeferrer(registry=self._app.periodic_registry)
        self._at = time.time()

    def tick(self) -> int:
        """One turn of its deferrer's loop; answers how many jobs it made."""
        before = self._count("SELECT count(*) FROM procrastinate_jobs")
        self._run(self._deferrer.defer_jobs(self._deferrer.get_previous_tasks(at=self._at)))
        return self._count("SELECT count(*) FROM procrastinate_jobs") - before

    def fill(self, runs: int) -> None:
        """Finished jobs with their three events, half of them old."""
        self.reset()
        self._connection.execute(FILL.format(runs=runs).encode())
        self._connection.execute("VACUUM ANALYZE procrastinate_jobs")
        self._connection.execute("VACUUM ANALYZE procrastinate_events")

    def delete(self) -> float:
        """One statement for all; answers how long it took."""
        begun = time.monotonic()
        self._run(self._app.job_manager.delete_old_jobs(nb_hours=RETENTION_HOURS))
        return time.monotonic() - begun

    def remaining(self) -> list[int]:
        """Jobs that are left."""
        return [self._count("SELECT count(*) FROM procrastinate_jobs")]

    async def _install(self) -> None:
        async with App(connector=PsycopgConnector(conninfo=self._url)).open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def _open(self) -> None:
        self._app = App(connector=PsycopgConnector(conninfo=self._url, min_size=4, max_size=20))

        @self._app.task(name="no_op")
        async def no_op(invoice: int, customer: str) -> None:  # noqa: ARG001 it does nothing
            self.note_start()

        @self._app.task(name="sync")
        async def sync(timestamp: int) -> None:
            """A periodic task."""

        self._no_op, self._sync = no_op, sync
        await self._app.open_async()

    async def _close(self) -> None:
        await self._app.close_async()

    async def _enqueue(self, jobs: int) -> None:
        inputs = [{"invoice": number, "customer": "c-1001"} for number in range(jobs)]
        for start in range(0, jobs, ENQUEUE_CHUNK):
            await self._no_op.batch_defer_async(*inputs[start : start + ENQUEUE_CHUNK])

    async def _submit(self) -> None:
        await self._no_op.defer_async(invoice=1, customer="c-1001")

    async def _work(self) -> None:
        """It can drain by itself."""
        await self._app.run_worker_async(
            concurrency=self._concurrency, wait=False, install_signal_handlers=False
        )

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[object]:
        running = asyncio.create_task(
            self._app.run_worker_async(concurrency=self._concurrency, install_signal_handlers=False)
        )
        yield None
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


if __name__ == "__main__":
    serve(Procrastinate())
