"""A pool of slots, with the buffer and the claimer that fill them, and the lookout of all pools."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.loops.wakeups import wait_for_wake
from gandy.store.queueing import look_out
from gandy.work.buffer import RunBuffer, SlotDemand
from gandy.work.claiming import Claimer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.context import Context
    from gandy.loops.wakeups import Wakeups
    from gandy.work.buffer import Claiming, JoinedClaim


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
        self.trains = frozenset(trains)
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


OTHERS_FIRST: Final = 4  # one in this many freed places is offered to the other pools first


class FreedPlaces:
    """Finds the claims that join the end of a run under a cap, for the place that it frees."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = pools
        self._ends = 0

    def join(self, train: str) -> list[JoinedClaim]:
        """Claim for the pool of the train; now and then for the others first, which may share its group."""
        self._ends += 1
        pools = [pool for pool in self._pools if train in pool.trains]
        if self._ends % OTHERS_FIRST == 0:
            pools = [pool for pool in self._pools if pool not in pools] + pools
        return [joined for pool in pools if (joined := pool.claimer.join_end()) is not None]


_log = logging.getLogger("gandy.worker")

RETRY_AFTER_SECONDS: Final = 1.0


class Lookout:
    """Opens the gate of entries when they come due, and looks for work on behalf of all claimers."""

    def __init__(self, context: Context, wakeups: Wakeups, pools: Sequence[Pool]) -> None:
        self._context = context
        self._wakeups = wakeups
        self._pools = pools
        self._poll = context.settings.worker.poll_every.total_seconds()
        self._later = wakeups.event("later")

    async def run(self) -> None:
        """Look for ever: when the next entry is due, and at the poll."""
        while True:
            seconds = await self.look()
            await wait_for_wake(self._later, self._poll if seconds is None else min(seconds, self._poll))

    async def look(self) -> float | None:
        """Wake the claimers if there is work; return the seconds until the next entry is due."""
        context = self._context
        try:
            found = await context.database.run(look_out(context.owner, context.registry.names))
        except GandyError as error:
            _log.warning("could not look for due entries: %s", error)
            return RETRY_AFTER_SECONDS
        self._wakeups.note_empty(is_empty=found.is_empty)
        for pool in self._pools:
            if found.has_work:
                pool.claimer.look_for_pending()
            else:
                pool.claimer.rest_on()
        return found.next_due
