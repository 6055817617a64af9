"""APScheduler 4 (a pre-release) on its PostgreSQL data store; completion is recorded as a kept result."""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from apscheduler import AsyncScheduler, SchedulerRole
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.eventbrokers.asyncpg import AsyncpgEventBroker
from apscheduler.eventbrokers.local import LocalEventBroker
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.peers.asynchronous import AsynchronousPeer
from benchmarks.protocol import serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

# From the sweep.
CONCURRENCY, BROKER = 20, "asyncpg"
# It has no bulk call: so many single ones at a time.
TOGETHER = 10
KEEP_RESULT = timedelta(hours=1)
PEER: list[APScheduler4] = []


async def no_op(invoice: int, customer: str) -> None:  # noqa: ARG001 it does nothing
    """The job."""
    PEER[0].note_start()


class APScheduler4(AsynchronousPeer):
    """A scheduler opened for submitting, another started for the work."""

    reset_sql = "TRUNCATE jobs, job_results, schedules; UPDATE tasks SET running_jobs = 0"
    unfinished_sql = "SELECT EXISTS (SELECT FROM jobs)"
    completed_sql = "SELECT count(*) FROM job_results WHERE outcome = 'success'"

    def __init__(self) -> None:
        super().__init__()
        self._concurrency, self._broker = CONCURRENCY, BROKER
        PEER.append(self)

    def tune(self, concurrency: int, broker: str) -> None:
        """Set what a sweep varies."""
        self._concurrency, self._broker = concurrency, broker

    def seed(self, manifests: int) -> None:
        """Schedules that are all due already."""
        self._run(self._seed(manifests))

    def make_due(self, manifests: int) -> None:
        """They are due as seeded."""
        if manifests != self._count("SELECT count(*) FROM schedules"):
            raise NotImplementedError
        self._connection.execute("VACUUM ANALYZE schedules")

    def tick(self) -> int:
        """A scheduler until nothing is due; answers how many jobs it made."""
        before = self._count("SELECT count(*) FROM jobs")
        self._run(self._tick())
        return self._count("SELECT count(*) FROM jobs") - before

    async def _install(self) -> None:
        async with self._new(SchedulerRole.both) as scheduler:
            await scheduler.configure_task("no_op", func=no_op, max_running_jobs=None)

    async def _open(self) -> None:
        """A scheduler belongs to the task that opened it, so every verb opens its own."""

    async def _close(self) -> None:
        """Nothing is open between two verbs."""

    async def _enqueue(self, jobs: int) -> None:
        async with self._new(SchedulerRole.both) as scheduler:
            await _in_groups(jobs, partial(_add, scheduler))

    async def _submit(self) -> None:
        await _add(self._running, 1)

    async def _seed(self, manifests: int) -> None:
        due = datetime.now(tz=UTC) - timedelta(minutes=1)
        async with self._new(SchedulerRole.both) as scheduler:
            await _in_groups(manifests, partial(_schedule, scheduler, due))

    async def _tick(self) -> None:
        async with self._start(SchedulerRole.scheduler):
            await self._until_none("SELECT EXISTS (SELECT FROM schedules WHERE next_fire_time <= now())")

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[object]:
        async with self._start(SchedulerRole.worker) as self._running:
            yield self._running

    @asynccontextmanager
    async def _start(self, role: SchedulerRole) -> AsyncIterator[AsyncScheduler]:
        async with self._new(role) as scheduler:
            # The function behind the stored task has to be told to every process.
            await scheduler.configure_task("no_op", func=no_op, max_running_jobs=None)
            await scheduler.start_in_background()
            yield scheduler
            await scheduler.stop()
            await scheduler.wait_until_stopped()

    def _new(self, role: SchedulerRole) -> AsyncScheduler:
        engine = create_async_engine(
            self._url.replace("postgresql://", "postgresql+asyncpg://"), pool_size=10
        )
        broker = (
            AsyncpgEventBroker.from_async_sqla_engine(engine)
            if self._broker == "asyncpg"
            else LocalEventBroker()
        )
        return AsyncScheduler(
            SQLAlchemyDataStore(engine), broker, role=role, max_concurrent_jobs=self._concurrency
        )


async def _in_groups(count: int, add: Callable[[int], Awaitable[None]]) -> None:
    for start in range(0, count, TOGETHER):
        await asyncio.gather(*(add(number) for number in range(start, min(start + TOGETHER, count))))


async def _add(scheduler: AsyncScheduler, number: int) -> None:
    await scheduler.add_job("no_op", args=(number, "c-1001"), result_expiration_time=KEEP_RESULT)


async def _schedule(scheduler: AsyncScheduler, due: datetime, number: int) -> None:
    trigger = IntervalTrigger(hours=1, start_time=due)
    await scheduler.add_schedule("no_op", trigger, id=f"sync-{number}", args=(number, "c-1001"))


if __name__ == "__main__":
    serve(APScheduler4())
