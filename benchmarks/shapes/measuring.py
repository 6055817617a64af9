"""The shares of the ideal rate, cell by cell."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.shapes.grid import Cap, by_load
from benchmarks.shapes.stand import Queue, running_up
from gandy.app.process import loop_factory
from gandy.store.drivers.opening import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.server import Server
    from benchmarks.shapes.grid import Cell, Load

#: Above this, what a timer adds to a job is not worth measuring.
TIMERS_COUNT_BELOW: Final = 100.0
SAMPLES: Final = 20
#: After a change of length a worker gets to know the new one.
WARM_UP: Final = 0.8


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is measured."""

    queued: int
    window: float = 1.0
    #: A window has at least so many jobs of one slot.
    jobs: float = 8.0

    def window_for(self, milliseconds: float) -> float:
        """Return the seconds that are measured."""
        return max(self.window, self.jobs * milliseconds / 1000)

    def warm_up_for(self, cell: Cell, before: float) -> float:
        """Return the seconds that come before: jobs as long as `before` are under way, and must have ended.

        More processes than cores each take longer, and so does their start.
        """
        crowding = cell.jobs_at_once / cell.places
        return crowding * (WARM_UP + (2 * cell.milliseconds + before) / 1000)


FULL: Final = Pace(queued=100_000)
QUICK: Final = Pace(queued=6_000, window=0.5, jobs=4)


@dataclass(frozen=True, slots=True)
class Figure:
    """What one cell came to."""

    cell: Cell
    rate: float
    ideal: float

    @property
    def share(self) -> float:
        """The share of the ideal rate."""
        return self.rate / self.ideal


class BareLengths:
    """How long a job takes by itself: what it was asked for and what the timers of this machine add."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, float], float] = {}

    def of(self, kind: str, milliseconds: float) -> float:
        """Return the seconds, measured once."""
        key = (kind, milliseconds)
        if key not in self._known:
            self._known[key] = self._measure(kind, milliseconds / 1000)
        return self._known[key]

    def _measure(self, kind: str, seconds: float) -> float:
        if kind == "process" or seconds * 1000 >= TIMERS_COUNT_BELOW:
            return seconds  # CPU time has no timer
        if kind == "thread":
            return statistics.median(_timed(seconds) for _ in range(SAMPLES))
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_timed_on_loop(seconds))


BARE: Final = BareLengths()


def measure(chosen: Sequence[Cell], pace: Pace, server: Server | None) -> Iterator[Figure]:
    """Measure every cell; one queue for each database and kind, one process for each number of slots."""
    with ExitStack() as stack:
        queues: dict[tuple[str, str], Queue] = {}
        for load, theirs in by_load(chosen):
            key = (load.database, load.kind)
            if key not in queues:
                queues[key] = stack.enter_context(_queue(load, pace, server))
            yield from _measure_load(queues[key], theirs, pace)


def _measure_load(queue: Queue, theirs: Sequence[Cell], pace: Pace) -> Iterator[Figure]:
    load = theirs[0].load
    with running_up(queue, load) as stand:
        applied: Cap | None = None
        before = 0.0
        for cell in theirs:
            cap = Cap.read(cell.cap, load.slots)
            if cap != applied:
                stand.apply(cap)
                applied = cap
            queue.top_up()
            milliseconds = cell.milliseconds
            rate = stand.rate(
                milliseconds,
                warm_up=pace.warm_up_for(cell, before),
                window=pace.window_for(milliseconds),
                at_once=cell.jobs_at_once,
            )
            before = milliseconds
            yield Figure(cell, rate, cell.places / BARE.of(load.kind, milliseconds))


@contextmanager
def _queue(load: Load, pace: Pace, server: Server | None) -> Iterator[Queue]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gandy-shapes-")))
        url = f"sqlite:///{folder / 'shapes.db'}"
        if server is not None and load.database == "postgres":
            url = server.url(stack.enter_context(server.database(f"bench_shapes_{load.kind}")))
        migrate(url)
        queue = Queue(url, folder, load.kind, pace.queued)
        queue.prepare()
        yield queue


def _timed(seconds: float) -> float:
    begun = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - begun


async def _timed_on_loop(seconds: float) -> float:
    taken = []
    for _ in range(SAMPLES):
        begun = time.monotonic()
        await asyncio.sleep(seconds)
        taken.append(time.monotonic() - begun)
    return statistics.median(taken)
