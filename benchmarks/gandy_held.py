"""Gandy's worker at a steady rate, first by itself, then while another session holds a snapshot."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from benchmarks.gandy_contestant import GandyContestant, Invoice
from benchmarks.gandy_upkeep import PACE_EVERY
from benchmarks.protocol import serve
from gandy import Gandy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

SAMPLE_EVERY = 1.0
ONE_OF = 100  # jobs whose pickup is measured
HOLD = b"BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ"
#: The tables that every job changes; history only grows.
HOT = b"""
SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables
WHERE schemaname = 'gandy' AND relname NOT LIKE 'history%' AND relname NOT LIKE 'log%'
"""


class Sample(NamedTuple):
    """One look."""

    at: float
    completed: int
    dead_tuples: int


class Half:
    """Jobs at a steady rate, counted, some of them timed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._app = Gandy("held", database=url)
        self._asked: list[float] = []
        self._taken: list[float] = []
        self._completed = 0

        @self._app.train
        async def paced(invoice: Invoice) -> None:
            self._completed += 1
            if invoice.invoice % ONE_OF == 0:
                self._taken.append(time.perf_counter() - self._asked[invoice.invoice // ONE_OF])

        self._train = paced

    async def run(self, seconds: float, free: float, per_second: float) -> dict[str, float]:
        """Run without a snapshot, then under one, and compare the last third of each."""
        async with self._app.running(("worker",)):
            feeding = asyncio.create_task(self._feed(per_second))
            alone, taken_alone = await self._watch(free)
            async with self._held():
                under, taken_under = await self._watch(seconds)
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
        return {
            "per second": rate(last_third(under)),
            "throughput, held / free": rate(last_third(under)) / max(rate(last_third(alone)), 1e-9),
            "dead tuples a job": slope(under),
            "dead tuples at the end": float(under[-1].dead_tuples),
            "p99 ms, free": percentile_99(taken_alone) * 1000,
            "p99 ms, held": percentile_99(taken_under) * 1000,
        }

    async def _feed(self, per_second: float) -> None:
        begun, sent = time.perf_counter(), 0
        while True:
            due = int((time.perf_counter() - begun) * per_second) + 1
            if due > sent:
                now = time.perf_counter()
                self._asked += [now] * ((due - 1) // ONE_OF + 1 - len(self._asked))
                inputs = [Invoice(invoice=number, customer="c-1001") for number in range(sent, due)]
                await self._app.enqueue_many(self._train, inputs)
                sent = due
            await asyncio.sleep(PACE_EVERY)

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        """A session that has read once and goes on reading the same."""
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            await connection.execute(HOLD)
            await connection.execute("SELECT count(*) FROM gandy.work_queue")
            yield

    async def _watch(self, seconds: float) -> tuple[list[Sample], list[float]]:
        samples: list[Sample] = []
        self._taken = []
        begun = time.monotonic()
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            while (at := time.monotonic() - begun) < seconds:
                cursor = await connection.execute(HOT)
                row = await cursor.fetchone()
                samples.append(Sample(at, self._completed, int(row[0]) if row else 0))
                await asyncio.sleep(SAMPLE_EVERY)
        return samples, self._taken[len(self._taken) * 2 // 3 :]


class GandyHeld(GandyContestant):
    """The worker alone: nothing of upkeep, so that what a snapshot does is seen."""

    def half_load(self, seconds: float, free: float, per_second: float) -> dict[str, float]:
        """Go on at that rate; answers what the snapshot changed."""
        figures: dict[str, float] = self._run(Half(self._url).run(seconds, free, per_second))
        return figures


def last_third(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The end, when whatever grows has grown."""
    return samples[-max(len(samples) // 3, 2) :]


def rate(samples: Sequence[Sample]) -> float:
    """Jobs a second."""
    first, last = samples[0], samples[-1]
    return (last.completed - first.completed) / max(last.at - first.at, 1e-9)


def slope(samples: Sequence[Sample]) -> float:
    """Dead tuples that a job leaves behind: the line through all looks."""
    completed = [float(sample.completed) for sample in samples]
    return statistics.linear_regression(completed, [float(sample.dead_tuples) for sample in samples]).slope


def percentile_99(taken: Sequence[float]) -> float:
    """Of the pickups that were timed; none were in a very short run."""
    return statistics.quantiles(taken, n=100, method="inclusive")[98] if len(taken) > 1 else 0.0


if __name__ == "__main__":
    serve(GandyHeld())
