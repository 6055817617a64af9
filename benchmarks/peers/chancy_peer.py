"""chancy: its asyncio executor, polling eagerly; its cron table; its pruner."""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from chancy import Chancy, Queue, Worker, job
from chancy.plugins.cron import Cron
from chancy.plugins.pruner import Pruner
from psycopg.rows import dict_row

from benchmarks.peers.asynchronous import AsynchronousPeer
from benchmarks.protocol import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# From the sweep. Its worker writes what has finished once a second unless told otherwise.
CONCURRENCY = 500
SEND_EVERY = 0.05
CRON_EVERY = 0.01
FILL = """
INSERT INTO chancy_jobs (id, queue, func, kwargs, state, attempts, created_at, started_at, completed_at)
SELECT gen_random_uuid(), 'default', '__main__.no_op', '{{"invoice": 1, "customer": "c-1001"}}',
       'succeeded', 1, at, at, at
FROM generate_series(1, 2 * {runs}) n,
     LATERAL (SELECT now() - CASE WHEN n <= {runs} THEN interval '2 days' ELSE interval '0' END AS at) t
"""
PEER: list[ChancyPeer] = []


@job(queue="default")
async def no_op(*, invoice: int, customer: str) -> None:  # noqa: ARG001 it does nothing
    """The job."""
    PEER[0].note_start()


class ChancyPeer(AsynchronousPeer):
    """One queue with one kind of job."""

    reset_sql = "TRUNCATE chancy_jobs, chancy_cron"
    unfinished_sql = "SELECT EXISTS (SELECT FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed'))"
    completed_sql = "SELECT count(*) FROM chancy_jobs WHERE state = 'succeeded'"
    analyze_sql = "ANALYZE chancy_jobs"

    def __init__(self) -> None:
        super().__init__()
        self._concurrency, self._send_every = CONCURRENCY, SEND_EVERY
        self._cron = Cron(poll_interval=CRON_EVERY)
        PEER.append(self)

    def tune(self, concurrency: int, send_every: float) -> None:
        """Set what a sweep varies."""
        self._concurrency, self._send_every = concurrency, send_every
        self._run(self._declare())

    def seed(self, manifests: int) -> None:
        """Store schedules, each with its unique key."""
        jobs = [no_op.job.with_unique_key(f"sync-{number}") for number in range(manifests)]
        named = [each.with_kwargs(invoice=1, customer="c-1001") for each in jobs]
        self._run(Cron.schedule(self._app, "0 * * * *", *named))

    def make_due(self, manifests: int) -> None:
        """Let some come due."""
        self._connection.execute("UPDATE chancy_cron SET next_run = now() + interval '1 hour'")
        self._connection.execute(
            """UPDATE chancy_cron SET next_run = now() - interval '1 second'
               WHERE unique_key IN (SELECT unique_key FROM chancy_cron LIMIT %s)""",
            [manifests],
        )
        self._connection.execute("VACUUM ANALYZE chancy_cron")

    def tick(self) -> int:
        """Its cron plugin's loop until nothing is due; answers how many jobs it pushed."""
        before = self._count("SELECT count(*) FROM chancy_jobs")
        self._run(self._tick())
        return self._count("SELECT count(*) FROM chancy_jobs") - before

    def fill(self, runs: int) -> None:
        """Succeeded jobs, half of them old."""
        self.reset()
        self._connection.execute(FILL.format(runs=runs).encode())
        self._connection.execute("VACUUM ANALYZE chancy_jobs")

    def delete(self) -> float:
        """Its pruner's statement until nothing is left to prune; answers the longest in seconds."""
        return float(self._run(self._prune()))

    def remaining(self) -> list[int]:
        """Jobs that are left."""
        return [self._count("SELECT count(*) FROM chancy_jobs")]

    async def _install(self) -> None:
        async with self._new() as app:
            await app.migrate()

    async def _open(self) -> None:
        self._app = self._new()
        await self._app.__aenter__()
        await self._declare()

    async def _close(self) -> None:
        await self._app.__aexit__(None, None, None)

    async def _enqueue(self, jobs: int) -> None:
        made = [no_op.job.with_kwargs(invoice=number, customer="c-1001") for number in range(jobs)]
        async for _ in self._app.push_many(made):
            pass

    async def _submit(self) -> None:
        await self._app.push(no_op.job.with_kwargs(invoice=1, customer="c-1001"))

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[object]:
        worker = Worker(self._app, register_signal_handlers=False)
        worker.send_outgoing_interval = self._send_every
        async with worker:
            yield None

    def _new(self) -> Chancy:
        # Stopping a worker cancels statements under way, of which its driver would tell at length.
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)
        quiet = logging.getLogger("chancy")
        quiet.setLevel(logging.WARNING)
        return Chancy(self._url, plugins=[self._cron], log=quiet)

    async def _declare(self) -> None:
        # A worker runs the queue of this name anyway, in a pool of processes unless told otherwise.
        queue = Queue(
            "default", concurrency=self._concurrency, executor=Chancy.Executor.Async, eager_polling=True
        )
        await self._app.declare(queue, upsert=True)

    async def _tick(self) -> None:
        ticking = asyncio.create_task(self._cron.run(None, self._app))
        await self._until_none("SELECT EXISTS (SELECT FROM chancy_cron WHERE next_run <= now())")
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking

    async def _prune(self) -> float:
        pruner, longest = Pruner(), 0.0
        while True:
            begun = time.monotonic()
            async with (
                self._app.pool.connection() as connection,
                connection.cursor(row_factory=dict_row) as c,
            ):
                pruned = await pruner.prune(self._app, c)
            longest = max(longest, time.monotonic() - begun)
            if not pruned:
                return longest


if __name__ == "__main__":
    serve(ChancyPeer())
