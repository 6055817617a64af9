"""An application at full speed with a short retention: what it holds and what it does, second by second."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from benchmarks.gandy_contestant import Invoice
from gandy import Gandy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

CHUNK = 1_000
BACKLOG = 5_000
SAMPLE_EVERY = 1.0
SERVICES = ("worker", "metadata-cleanup", "dead-letter-cleanup", "lifecycle")
STATE = """
SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
FROM pg_stat_user_tables WHERE schemaname = 'gandy'
"""


class Sample(NamedTuple):
    """One look."""

    at: float
    completed: int
    size: int
    dead_tuples: int


class Soak:
    """One long run."""

    def __init__(self, name: str, url: str, retention: timedelta) -> None:
        self._url = url
        self._app = Gandy(f"soak-{name}", database=url)
        spans = dict.fromkeys(("completed", "failed", "cancelled"), retention)
        self._app.configure({"retention": {**spans, "interval": retention / 6}})
        self._completed = 0

        @self._app.train
        async def soaked(invoice: Invoice) -> None:  # noqa: ARG001 it does nothing
            self._completed += 1

        self._train = soaked

    async def run(self, seconds: float) -> dict[str, float]:
        """Run, and compare the last third with the middle one."""
        async with self._app.running(SERVICES):
            feeding = asyncio.create_task(self._feed())
            samples = await self._watch(seconds)
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
        third = len(samples) // 3
        return compare(samples[third : 2 * third], samples[2 * third :])

    async def _feed(self) -> None:
        """Keep some work waiting, never all of it."""
        sent = 0
        while True:
            if sent - self._completed < BACKLOG:
                inputs = [Invoice(invoice=number, customer="c-1001") for number in range(CHUNK)]
                await self._app.enqueue_many(self._train, inputs)
                sent += CHUNK
            else:
                await asyncio.sleep(0.01)

    async def _watch(self, seconds: float) -> list[Sample]:
        samples = []
        begun = time.monotonic()
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            while (at := time.monotonic() - begun) < seconds:
                cursor = await connection.execute(STATE.encode())
                size, dead = await cursor.fetchone() or (0, 0)
                samples.append(Sample(at, self._completed, size, dead))
                await asyncio.sleep(SAMPLE_EVERY)
        return samples


def compare(middle: Sequence[Sample], last: Sequence[Sample]) -> dict[str, float]:
    """Say how the last third did against the middle one."""
    return {
        "per second": _rate(last),
        "throughput, last / middle": _rate(last) / max(_rate(middle), 1e-9),
        "size, last / middle": _mean(last, 2) / max(_mean(middle, 2), 1.0),
        "dead tuples, last / middle": _mean(last, 3) / max(_mean(middle, 3), 1.0),
        "size MB": _mean(last, 2) / 1e6,
    }


def _rate(samples: Sequence[Sample]) -> float:
    first, last = samples[0], samples[-1]
    return (last.completed - first.completed) / max(last.at - first.at, 1e-9)


def _mean(samples: Sequence[Sample], place: int) -> float:
    return statistics.fmean(sample[place] for sample in samples)
