"""Whether the loops of this process still go round."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.events import CycleEnded, LoopEnded, LoopRestarted

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.events import EventBus

#: The slowest loop goes round once a minute by default.
SILENT_AFTER: Final = timedelta(minutes=3)


class LoopWatch:
    """Remembers when each loop last completed a cycle, and how that went."""

    def __init__(self, events: EventBus, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._ended: dict[str, float] = {}
        self._errors: dict[str, str] = {}
        self._gone: dict[tuple[str, str], str] = {}
        events.subscribe(CycleEnded, self._cycle_ended)
        events.subscribe(LoopEnded, self._loop_ended)
        events.subscribe(LoopRestarted, self._loop_restarted)

    def problems(self) -> tuple[str, ...]:
        """Name the loops that fail or are stuck; one that has not begun is none of them."""
        silent = self._now() - SILENT_AFTER.total_seconds()
        stuck = [
            f"{service} has not completed a cycle lately"
            for service, at in self._ended.items()
            if at < silent
        ]
        gone = [
            f"{service} is not running: {loop} ended with {cause}"
            for (service, loop), cause in self._gone.items()
        ]
        failed = [f"{service} failed: {error}" for service, error in self._errors.items()]
        return (*gone, *stuck, *failed)

    def _loop_ended(self, event: LoopEnded) -> None:
        self._gone[event.service, event.loop] = event.cause

    def _loop_restarted(self, event: LoopRestarted) -> None:
        self._gone.pop((event.service, event.loop), None)

    def _cycle_ended(self, event: CycleEnded) -> None:
        self._ended[event.service] = self._now()
        if event.verdict == "failed":
            self._errors[event.service] = event.error or "for a reason it did not say"
        else:
            self._errors.pop(event.service, None)
