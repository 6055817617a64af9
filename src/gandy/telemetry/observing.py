"""Telemetry of an application: its metrics, and the health of its service loops."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from gandy.errors import MissingExtraError
from gandy.events import CycleEnded, LoopEnded, LoopRestarted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gandy.events import EventBus
    from gandy.telemetry.metrics import Metrics


#: By default the slowest loop completes a cycle every minute.
SILENT_AFTER: Final = timedelta(minutes=3)
#: A problem that begins so concerns a process: `gandy health` reports it, too.
WORKER_PROCESS: Final = "worker process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Gauge values, read by queries of bounded cost."""

    waiting: Mapping[str, int]  #: entries by the gate that holds them
    live_runs: Mapping[str, int]  #: runs by state
    longest_wait: float
    awaiting_letters: int
    workers: int
    slots: int
    busy: int


class LoopWatch:
    """Records when each loop last completed a cycle, and with which result."""

    def __init__(self, events: EventBus, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._ended: dict[str, float] = {}
        self._failed: set[str] = set()
        self._gone: set[tuple[str, str]] = set()
        self._sources: list[Callable[[], Iterable[str]]] = []
        events.subscribe(CycleEnded, self._cycle_ended)
        events.subscribe(LoopEnded, self._loop_ended)
        events.subscribe(LoopRestarted, self._loop_restarted)

    def problems(self) -> tuple[str, ...]:
        """List the loops that fail, ended or are stuck; a loop without a first cycle is not stuck.

        Probes need no token, so causes stay in the log: a database's message may contain anything.
        """
        silent = self._now() - SILENT_AFTER.total_seconds()
        stuck = [
            f"{service} has not completed a cycle lately"
            for service, at in self._ended.items()
            if at < silent
        ]
        gone = [
            f"{service} is not running: its loop {loop!r} ended and starts again"
            for service, loop in self._gone
        ]
        failed = [f"the last cycle of {service} failed" for service in self._failed]
        others = [problem for source in self._sources for problem in source()]
        return (*gone, *stuck, *failed, *others)

    @contextmanager
    def asking_also(self, source: Callable[[], Iterable[str]]) -> Iterator[None]:
        """Add a source of problems for the block, such as the worker processes of this process."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    def _loop_ended(self, event: LoopEnded) -> None:
        self._gone.add((event.service, event.loop))

    def _loop_restarted(self, event: LoopRestarted) -> None:
        if event.loop == event.service:  # the whole service is new: none of its former loops comes back
            self._gone = {gone for gone in self._gone if gone[0] != event.service}
        else:
            self._gone.discard((event.service, event.loop))

    def _cycle_ended(self, event: CycleEnded) -> None:
        self._ended[event.service] = self._now()
        if event.verdict == "failed":
            self._failed.add(event.service)
        else:
            self._failed.discard(event.service)


_OBSERVED: WeakKeyDictionary[EventBus, Telemetry] = WeakKeyDictionary()


class Telemetry:
    """Subscribes to an application's events when it is created."""

    def __init__(self, events: EventBus) -> None:
        self.loops = LoopWatch(events)
        try:
            from gandy.telemetry.metrics import Metrics  # noqa: PLC0415 an extra
        except ModuleNotFoundError:
            self._metrics: Metrics | None = None
        else:
            self._metrics = Metrics(events)

    @property
    def has_metrics(self) -> bool:
        """Whether the extra is installed."""
        return self._metrics is not None

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics of the application; needs the extra."""
        if self._metrics is None:
            raise MissingExtraError("metrics", "metrics")
        return self._metrics


def observe(events: EventBus) -> Telemetry:
    """Return the telemetry of an application; all its interfaces share one instance."""
    found = _OBSERVED.get(events)
    if found is None:
        found = _OBSERVED[events] = Telemetry(events)
    return found
