"""oban: batches claimed up to the queue's limit; its cron entries; its pruner."""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oban import Oban, worker
from oban._scheduler import _scheduled_entries, register_scheduled
from oban.schema import install

from benchmarks.peers.asynchronous import AsynchronousPeer
from benchmarks.protocol import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from oban.job import Job

# From the sweep.
LIMIT = 200
ENQUEUE_CHUNK = 5_000
#: The pruner's own defaults.
RETENTION_SECONDS, PRUNE_LIMIT = 86_400, 20_000
FILL = """
INSERT INTO oban_jobs (state, worker, args, attempt, inserted_at, scheduled_at, attempted_at, completed_at)
SELECT 'completed', '__main__.NoOp', '{{"invoice": 1, "customer": "c-1001"}}', 1, at, at, at, at
FROM generate_series(1, 2 * {runs}) n,
     LATERAL (SELECT timezone('UTC', now())
                     - CASE WHEN n <= {runs} THEN interval '2 days' ELSE interval '0' END AS at) t
"""
PEER: list[ObanPeer] = []


class NoOp:
    """The job."""

    async def process(self, _: Job) -> None:
        """Do nothing."""
        PEER[0].note_start()


NO_OP: Any = worker(queue="default")(NoOp)


class ObanPeer(AsynchronousPeer):
    """One queue with one kind of job."""

    reset_sql = "TRUNCATE oban_jobs"
    unfinished_sql = (
        "SELECT EXISTS (SELECT FROM oban_jobs WHERE state IN ('available', 'scheduled', 'executing'))"
    )
    completed_sql = "SELECT count(*) FROM oban_jobs WHERE state = 'completed'"
    analyze_sql = "ANALYZE oban_jobs"

    def __init__(self) -> None:
        super().__init__()
        self._limit = LIMIT
        self._due_at: datetime | None = None
        PEER.append(self)

    def tune(self, limit: int) -> None:
        """Set what a sweep varies."""
        self._limit = limit

    def seed(self, manifests: int) -> None:
        """Cron entries are declared in code."""
        _scheduled_entries.clear()
        for _ in range(manifests):
            register_scheduled("* * * * *", NO_OP)

    def make_due(self, manifests: int) -> None:
        """All are due every minute."""
        if manifests != len(_scheduled_entries):
            raise NotImplementedError
        self._due_at = datetime.now(tz=UTC).replace(second=0, microsecond=0)

    def tick(self) -> int:
        """What its scheduler does at a full minute, once for each; answers how many jobs that made."""
        before = self._count("SELECT count(*) FROM oban_jobs")
        if self._due_at is not None:
            self._run(self._client._scheduler._evaluate(self._due_at))  # noqa: SLF001 nothing public ticks
        self._due_at = None
        return self._count("SELECT count(*) FROM oban_jobs") - before

    def fill(self, runs: int) -> None:
        """Completed jobs, half of them old."""
        self.reset()
        self._connection.execute(FILL.format(runs=runs).encode())
        self._connection.execute("VACUUM ANALYZE oban_jobs")

    def delete(self) -> float:
        """Its pruner's statement until nothing is left to prune; answers the longest in seconds."""
        return float(self._run(self._prune()))

    def remaining(self) -> list[int]:
        """Jobs that are left."""
        return [self._count("SELECT count(*) FROM oban_jobs")]

    async def _install(self) -> None:
        pool = await Oban.create_pool(self._url)
        await install(pool)
        await pool.close()

    async def _open(self) -> None:
        self._pool = await Oban.create_pool(self._url, min_size=2, max_size=10)
        self._client = Oban(pool=self._pool)

    async def _close(self) -> None:
        await self._pool.close()

    async def _enqueue(self, jobs: int) -> None:
        made = [NO_OP.new({"invoice": number, "customer": "c-1001"}) for number in range(jobs)]
        for start in range(0, jobs, ENQUEUE_CHUNK):
            await self._client.enqueue_many(made[start : start + ENQUEUE_CHUNK])

    async def _submit(self) -> None:
        await self._client.enqueue(NO_OP.new({"invoice": 1, "customer": "c-1001"}))

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[object]:
        async with Oban(pool=self._pool, name="worker", queues={"default": self._limit}):
            yield None

    async def _prune(self) -> float:
        longest = 0.0
        while True:
            begun = time.monotonic()
            pruned = await self._client._query.prune_jobs(RETENTION_SECONDS, PRUNE_LIMIT)  # noqa: SLF001
            longest = max(longest, time.monotonic() - begun)
            if not pruned:
                return longest


if __name__ == "__main__":
    serve(ObanPeer())
