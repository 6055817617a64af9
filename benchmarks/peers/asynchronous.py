"""What the peers that run on asyncio have in common; imports only what all their environments have."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
import uvloop

from benchmarks.protocol import Contestant

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextlib import AbstractAsyncContextManager

LATENCY_PAUSE = 0.02
PATIENCE = 120.0
# Short beside a round of seconds, long beside a look at an index.
LOOK_EVERY = 0.025


class AsynchronousPeer(Contestant):
    """Its tables are named by statements; a subclass says how to submit and how to work."""

    reset_sql: ClassVar[str]
    #: Answers true while a job waits or runs.
    unfinished_sql: ClassVar[str]
    completed_sql: ClassVar[str]
    analyze_sql: ClassVar[str] = "ANALYZE"

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._started: asyncio.Queue[float] | None = None

    def setup(self, url: str) -> None:
        """Install its tables."""
        self._url = url
        self._run(self._install())

    def open(self, url: str) -> None:
        """Connect it, and a connection beside it for what is not its own work."""
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._run(self._open())

    def close(self) -> None:
        """Disconnect."""
        self._run(self._close())
        self._runner.close()

    def reset(self) -> None:
        """Empty its tables."""
        self._connection.execute(self.reset_sql.encode())

    def enqueue(self, jobs: int) -> None:
        """Its own bulk call."""
        self._run(self._enqueue(jobs))

    def ready(self) -> None:
        """The statistics that autovacuum would have given the planner."""
        self._connection.execute(self.analyze_sql.encode())

    def work(self) -> None:
        """Start working, go on until nothing waits or runs, stop."""
        self._run(self._work())

    def completed(self) -> int:
        """Jobs on record as completed."""
        return self._count(self.completed_sql)

    def latency(self, samples: int) -> list[float]:
        """Seconds from the call of enqueue on an idle system to the start of the handler."""
        taken: list[float] = self._run(self._latency(samples))
        return taken

    def note_start(self) -> None:
        """What every handler does, and all that it does."""
        if self._started is not None:
            self._started.put_nowait(time.perf_counter())

    async def _install(self) -> None:
        raise NotImplementedError

    async def _open(self) -> None:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError

    async def _enqueue(self, jobs: int) -> None:
        raise NotImplementedError

    async def _submit(self) -> None:
        """One job, by the call that an application would use."""
        raise NotImplementedError

    def _working(self) -> AbstractAsyncContextManager[object]:
        """A running worker."""
        raise NotImplementedError

    async def _work(self) -> None:
        async with self._working():
            await self._until_none(self.unfinished_sql)

    async def _until_none(self, sql: str) -> None:
        """Look until it answers none; a job that is lost must not keep everybody waiting."""
        deadline = time.monotonic() + PATIENCE
        while self._count(sql):
            if time.monotonic() > deadline:
                raise TimeoutError(sql)
            await asyncio.sleep(LOOK_EVERY)

    async def _latency(self, samples: int) -> list[float]:
        self._started = asyncio.Queue()
        async with self._working():
            taken = [await self._one_pickup(self._started) for _ in range(samples + 1)]
        self._started = None
        return taken[1:]

    async def _one_pickup(self, started: asyncio.Queue[float]) -> float:
        await asyncio.sleep(LATENCY_PAUSE)
        asked = time.perf_counter()
        await self._submit()
        return await asyncio.wait_for(started.get(), timeout=PATIENCE) - asked

    def _count(self, sql: str) -> int:
        row = self._connection.execute(sql.encode()).fetchone()
        return int(row[0]) if row else 0

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        return self._runner.run(work)
