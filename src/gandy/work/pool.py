"""A pool of slots, with the buffer and the claimer that fill them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gandy.work.buffer import RunBuffer, SlotDemand
from gandy.work.claiming import Claimer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.context import Context
    from gandy.loops.wakeups import Wakeups
    from gandy.work.buffer import Claiming


STALLED_SECONDS: Final = 1.0


class Pool:
    """Slots for certain trains: a worker has a pool for its event loop and threads, and one for processes."""

    def __init__(
        self,
        context: Context,
        worker: Claiming,
        *,
        wakeups: Wakeups,
        trains: Sequence[str],
        slots: int,
        prefetch: int,
        suspects: RunBuffer,
    ) -> None:
        self.slots = slots
        self.ready = RunBuffer()
        self._begun = 0
        self._begun_at = time.monotonic()
        places = SlotDemand(slots=slots, prefetch=prefetch, trains=trains)
        self.claimer = Claimer(context, worker, places, wakeups=wakeups, ready=self.ready, suspects=suspects)

    def take_stalled(self) -> list[int]:
        """Empty the buffer while every slot is busy with long jobs, since another worker may be free."""
        if self.claimer.begun != self._begun:
            self._begun, self._begun_at = self.claimer.begun, time.monotonic()
        is_stalled = (
            self.claimer.busy >= self.slots
            and len(self.ready.runs) > 0
            and time.monotonic() - self._begun_at > STALLED_SECONDS
        )
        if not is_stalled:
            return []
        self.claimer.stall()
        return self.ready.clear()
