"""awa: a queue written in Rust with handlers in Python; its queue storage; its periodic jobs."""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from awa import AsyncClient

from benchmarks.peers.asynchronous import AsynchronousPeer
from benchmarks.protocol import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# From the sweep.
WORKERS = 500
CONNECTIONS = 20
ENQUEUE_CHUNK = 5_000
QUEUE, NO_QUEUE = "default", "nothing"
#: What its ring of partitions holds; the views over it join every job with its entry.
COMPLETED = "SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches"
QUEUED = "SELECT count(*) FROM awa.ready_entries"
MAKE_DUE = """
UPDATE awa.cron_jobs
SET created_at = created_at - interval '2 hours', last_enqueued_at = now() - interval '2 hours'
"""
SEEDED = "SELECT count(*) FROM awa.cron_jobs"
ANY_DUE = "SELECT EXISTS (SELECT FROM awa.cron_jobs WHERE last_enqueued_at < date_trunc('hour', now()))"


@dataclass
class NoOp:
    """A small input."""

    invoice: int
    customer: str


class AwaPeer(AsynchronousPeer):
    """One client to enqueue with; a runtime is a client of its own, started once."""

    completed_sql = COMPLETED
    analyze_sql = "ANALYZE awa.ready_entries"

    def __init__(self) -> None:
        super().__init__()
        self._workers = WORKERS
        self._manifests = self._enqueued = 0

    def tune(self, workers: int) -> None:
        """Set what a sweep varies."""
        self._workers = workers

    def reset(self) -> None:
        """Its own reset makes its tables again, so what was prepared for the old ones is closed."""
        self._run(self._reset())

    def ready(self) -> None:
        """Statistics, and how many jobs there are to finish."""
        super().ready()
        self._enqueued = self._count(QUEUED)

    def seed(self, manifests: int) -> None:
        """Periodic jobs are declared in code and stored when a runtime starts."""
        self._manifests = manifests
        self._run(self._seed())

    def make_due(self, manifests: int) -> None:
        """Let all come due."""
        if manifests != self._count(SEEDED):
            raise NotImplementedError
        self._connection.execute(MAKE_DUE)
        self._connection.execute("VACUUM ANALYZE awa.cron_jobs")

    def tick(self) -> int:
        """A runtime until nothing is due; answers how many jobs it made."""
        before = self._count(QUEUED)
        self._run(self._tick())
        return self._count(QUEUED) - before

    async def _install(self) -> None:
        async with self._new() as client:
            await client.migrate()
            await client.install_queue_storage()

    async def _open(self) -> None:
        self._client = self._new()
        self._connection.prepare_threshold = None  # what is prepared does not outlive the tables

    async def _close(self) -> None:
        await self._client.close()

    async def _reset(self) -> None:
        await self._client.install_queue_storage(reset=True)
        await self._client.close()
        self._client = self._new()
        self._connection.execute("DELETE FROM awa.cron_jobs")

    async def _enqueue(self, jobs: int) -> None:
        made = [NoOp(number, "c-1001") for number in range(jobs)]
        for start in range(0, jobs, ENQUEUE_CHUNK):
            await self._client.enqueue_many_copy(made[start : start + ENQUEUE_CHUNK], queue=QUEUE)

    async def _submit(self) -> None:
        await self._client.insert(NoOp(1, "c-1001"), queue=QUEUE)

    async def _work(self) -> None:
        """Every entry stays where it is; what is done is counted in batches."""
        async with self._working():
            await self._until_none(f"SELECT ({COMPLETED}) < {self._enqueued}")

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[object]:
        async with self._new() as runtime:
            self._register(runtime, QUEUE)
            await runtime.start([(QUEUE, self._workers)])
            yield runtime
            await runtime.shutdown()

    async def _seed(self) -> None:
        async with self._scheduling():
            await self._until_none(f"SELECT ({SEEDED}) < {self._manifests}")

    async def _tick(self) -> None:
        async with self._scheduling():
            await self._until_none(ANY_DUE)

    @asynccontextmanager
    async def _scheduling(self) -> AsyncIterator[object]:
        """A runtime that works on a queue of its own, so that what it makes stays."""
        async with self._new() as runtime:
            self._register(runtime, NO_QUEUE)
            for number in range(self._manifests):
                runtime.periodic(f"sync-{number}", "0 * * * *", NoOp, NoOp(number, "c-1001"), queue=QUEUE)
            await runtime.start([(NO_QUEUE, 1)])
            yield runtime
            await runtime.shutdown()

    def _register(self, runtime: AsyncClient, queue: str) -> None:
        @runtime.task(NoOp, queue=queue)
        async def no_op(_: Any) -> None:  # noqa: ANN401 a job of the library's own type
            self.note_start()

    def _new(self) -> AsyncClient:
        # Its driver wants a host beside the folder of the socket.
        return AsyncClient(self._url.replace("@/", "@localhost/"), max_connections=CONNECTIONS)


if __name__ == "__main__":
    serve(AwaPeer())
