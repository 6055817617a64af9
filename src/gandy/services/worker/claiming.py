"""Claiming ahead of the slots: the next runs are on their way while the last ones are run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from gandy.rules.aftermath import is_suspect
from gandy.services.wakeups import wait_for_wake
from gandy.services.worker.pace import Pace
from gandy.services.worker.parts import dispatch_request
from gandy.store.dispatching import claim_pending, dispatch

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from gandy.services.worker.buffer import RunBuffer
    from gandy.services.worker.parts import WorkerParts
    from gandy.store.dispatching import Dispatched
    from gandy.store.drivers.database import Session

LANES: Final = 2  # a claim may set out before the one before it is back


class Claiming(Protocol):
    """What a claimer has to know of its worker."""

    @property
    def id(self) -> str:
        """Under which name to claim."""
        ...

    @property
    def running(self) -> int:
        """How many slots are taken."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and every end is on record, so that nothing new comes from here."""
        ...

    def note_idle(self) -> None:
        """Nothing was there to claim, asked while all was quiet."""
        ...

    async def attempt(self, work: Awaitable[int]) -> int | None:
        """Do it, or say why not and let the loop go on."""
        ...


class Claimer:
    """Keeps the buffers of one worker filled, by as much as it runs in a moment."""

    def __init__(
        self, parts: WorkerParts, worker: Claiming, *, ready: RunBuffer, suspects: RunBuffer
    ) -> None:
        self._parts = parts
        self._worker = worker
        self._ready = ready
        self._suspects = suspects
        self._settings = parts.settings.worker
        self._pace = Pace(slots=self._settings.slots, most=self._settings.prefetch)
        self._sessions = [parts.database.session() for _ in range(LANES)]
        self._low = [asyncio.Event() for _ in range(LANES)]
        self._wake = parts.wakeups.event("work")
        self._pending = parts.wakeups.event("pending")
        self._flying: set[asyncio.Future[int]] = set()
        self._coming = 0
        self._is_dry = True
        self._low_mark = 0
        self.is_open = True
        self.look_for_pending()

    def look(self) -> None:
        """Ask the queue again at once."""
        self._wake.set()

    def look_for_pending(self) -> None:
        """Let the next claim begin with what a dispatcher has made."""
        self._pending.set()

    def begin(self) -> None:
        """Count a run that begins, and claim before the slots run dry."""
        self._pace.begin()
        self._notice()

    async def run(self) -> None:
        """Claim for ever; sleep only when the queue has nothing more."""
        poll = self._settings.poll_every.total_seconds()
        while True:
            wanted, was_quiet = self._wanted(), self._worker.is_quiet
            claimed = await self._claim_whole(wanted) if wanted else None
            if wanted and claimed is None:
                continue  # it failed, and has rested for that
            if claimed is None or claimed >= wanted:
                await wait_for_wake(self._low[0], poll)
                continue
            if claimed == 0 and was_quiet:
                if self._flying:  # the other lane may bring something: only then is it known
                    await asyncio.wait(self._flying)
                    continue
                self._worker.note_idle()
            await wait_for_wake(self._wake, poll)

    async def run_beside(self) -> None:
        """Claim too while a claim is on its way, as long as the queue has more."""
        while True:
            await self._low[1].wait()
            self._low[1].clear()
            wanted = self._wanted() if self._flying else 0
            if wanted:
                await self._claim_whole(wanted, lane=1)

    async def settle(self, seconds: float) -> None:
        """Claim nothing more, and wait for what is on its way."""
        self.is_open = False
        if self._flying:
            await asyncio.wait(self._flying, timeout=seconds)

    @property
    def session(self) -> Session:
        """The connection that put what was not begun back."""
        return self._sessions[0]

    async def close(self) -> None:
        """Give the connections up."""
        for session in self._sessions:
            await session.close()

    def _wanted(self) -> int:
        """How many to claim: the free slots and a batch beyond, once a part of that is used up."""
        self._pace.measure()
        held = len(self._ready) + self._coming
        self._mark()
        if not self.is_open or held + self._pace.unit > self._pace.ahead:
            return 0
        return max(0, self._settings.slots - self._worker.running + self._pace.ahead - held)

    def _mark(self) -> None:
        """Say below how many held runs the next claim is worth its while."""
        self._low_mark = self._pace.ahead - self._pace.unit - self._coming

    def _notice(self) -> None:
        """Wake the lanes when too little is held; where the queue has no more, one of them is enough."""
        if len(self._ready) < self._low_mark:
            for low in self._low[:1] if self._is_dry else self._low:
                low.set()

    async def _claim_whole(self, limit: int, *, lane: int = 0) -> int | None:
        """A claim that has begun comes to its end: what it committed must be known to somebody."""
        flight = asyncio.ensure_future(self._claim(limit, self._sessions[lane]))
        self._flying.add(flight)
        self._coming += limit
        flight.add_done_callback(lambda _: self._land(flight, limit))
        return await self._worker.attempt(asyncio.shield(flight))

    def _land(self, flight: asyncio.Future[int], limit: int) -> None:
        self._flying.discard(flight)
        self._coming -= limit
        self._mark()
        is_known = not flight.cancelled() and flight.exception() is None
        self._is_dry = not is_known or flight.result() < limit
        self._notice()  # what was expected of it may not have come

    async def _claim(self, limit: int, session: Session) -> int:
        request = dispatch_request(self._parts, limit, self._worker.id)
        claimed = 0
        if self._pending.is_set():
            self._pending.clear()
            claimed = self._hold(await session.run(claim_pending(request)))
        if claimed < limit:
            claimed += self._hold(await session.run(dispatch(request)))
        return claimed

    def _hold(self, claimed: Dispatched) -> int:
        """Keep what is committed at once: were it lost, nobody would miss it while this worker lives."""
        runs = claimed.runs
        suspects = [run for run in runs if is_suspect(run.losses)]
        self._suspects.put(suspects)
        self._ready.put([run for run in runs if not is_suspect(run.losses)] if suspects else runs)
        return len(runs)
