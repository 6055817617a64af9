"""Gandy itself, with its defaults, through its own front door."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import psycopg
from pydantic import BaseModel

from benchmarks.protocol import Contestant, serve
from gandy import Gandy
from gandy.app.process import loop_factory, tune_garbage_collector
from gandy.store.drivers.opening import migrate

if TYPE_CHECKING:
    from collections.abc import Coroutine

LATENCY_PAUSE = 0.02
RESET = """
TRUNCATE gandy.work_queue, gandy.history, gandy.log, gandy.unique_key, gandy.dead_letter, gandy.worker
"""
COMPLETED = "SELECT count(*) FROM gandy.history WHERE train_state = 'completed' AND name = 'no_op'"


class Invoice(BaseModel):
    """A small input."""

    invoice: int
    customer: str


class GandyContestant(Contestant):
    """An application with one train that does nothing."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._started: asyncio.Queue[float] | None = None

    def setup(self, url: str) -> None:
        """Migrate."""
        migrate(url)

    def open(self, url: str) -> None:
        """Open the application."""
        self._url = url
        self._app = Gandy("bench", database=url)

        @self._app.train
        async def no_op(invoice: Invoice) -> None:  # noqa: ARG001 it does nothing
            if self._started is not None:
                self._started.put_nowait(time.perf_counter())

        self._no_op = no_op
        tune_garbage_collector()
        self._run(self._app.__aenter__())

    def close(self) -> None:
        """Close it."""
        self._run(self._app.__aexit__(None, None, None))

    def reset(self) -> None:
        """Empty the tables."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(RESET.encode())

    def fill(self, jobs: int) -> None:
        """Store nothing beside the work."""

    def enqueue(self, jobs: int) -> None:
        """The bulk call."""
        inputs = [Invoice(invoice=n, customer="c-1001") for n in range(jobs)]
        self._run(self._app.enqueue_many(self._no_op, inputs))

    def ready(self) -> None:
        """Nothing to prepare."""

    def work(self) -> None:
        """Work until nothing is left."""
        self._run(self._app.work(asyncio.Event(), until_idle=True))

    def completed(self) -> int:
        """Completed runs in history."""
        with psycopg.connect(self._url) as connection:
            row = connection.execute(COMPLETED.encode()).fetchone()
            return int(row[0]) if row else 0

    def latency(self, samples: int) -> list[float]:
        """Seconds from the call of enqueue on an idle system to the start of the train."""
        taken: list[float] = self._run(self._latency(samples))
        return taken

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the coroutine returns
        return self._runner.run(work)

    async def _latency(self, samples: int) -> list[float]:
        self._started = asyncio.Queue()
        stop = asyncio.Event()
        working = asyncio.create_task(self._app.work(stop))
        taken = [await self._one_pickup(self._started) for _ in range(samples + 1)]
        stop.set()
        await working
        self._started = None
        return taken[1:]

    async def _one_pickup(self, started: asyncio.Queue[float]) -> float:
        await asyncio.sleep(LATENCY_PAUSE)
        asked = time.perf_counter()
        await self._app.enqueue(self._no_op, Invoice(invoice=1, customer="c-1001"))
        return await asyncio.wait_for(started.get(), timeout=60) - asked


if __name__ == "__main__":
    serve(GandyContestant())
