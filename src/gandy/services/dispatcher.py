"""When the dispatcher runs: woken by notifications, and every two seconds regardless."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from gandy.admin.job_dispatcher.running import cycle_request, run_cycle
from gandy.admin.running import Record
from gandy.events import CycleEnded
from gandy.services.polling import Poller
from gandy.store.runs import count_pending
from gandy.submit import Deliverer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.admin.job_dispatcher.cycle import CycleResult
    from gandy.events import EventBus
    from gandy.services.wakeups import Wakeups
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.submit import Submitter

SERVICE: Final = "dispatcher"
#: With a submitter, how many runs may wait for the other engine to begin them.
MOST_PENDING: Final = 1_000
LOOK_AGAIN: Final = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherParts:
    """What the application gives to its dispatcher."""

    owner: str
    database: Database
    settings: Settings
    trains: Sequence[str]
    events: EventBus
    wakeups: Wakeups
    submitter: Submitter | None = None  #: None: workers take the runs from the database


class DispatcherService:
    """Dispatches what waits; with workers of our own, only what none of them asked for within one poll."""

    def __init__(self, parts: DispatcherParts) -> None:
        self._parts = parts
        wakeups, submitter = parts.wakeups, parts.submitter
        self._wake = wakeups.event("later") if submitter is None else wakeups.event("work", "later")
        self._deliverer = (
            None
            if submitter is None
            else Deliverer(parts.database, parts.owner, submitter, events=parts.events)
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until told to stop, and beside them deliver what they dispatch."""
        poll_every = self._parts.settings.dispatcher.poll_every
        poller = Poller(SERVICE, self._cycle, poll_every=poll_every, wake=self._wake)
        if self._deliverer is None:
            return await poller.run(stop)
        delivering = asyncio.create_task(self._deliverer.run(poll_every), name="gandy-deliverer")
        polling = asyncio.create_task(poller.run(stop), name="gandy-dispatcher")
        try:
            done, _ = await asyncio.wait((delivering, polling), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # what one of them raises is the service's own end
        finally:
            for task in (delivering, polling):
                task.cancel()
            await asyncio.gather(delivering, polling, return_exceptions=True)
            await self._deliverer.close()

    async def tick(self) -> CycleResult:
        """Run exactly one cycle because a person asks for it."""
        result = await self._dispatch(min_age=timedelta(0), is_asked_for=True)
        if self._deliverer is not None:
            await self._deliverer.deliver_due()
        return result

    async def _cycle(self) -> timedelta | None:
        if self._deliverer is None:
            await self._dispatch(min_age=self._parts.settings.dispatcher.poll_every, is_asked_for=False)
            return None
        pending = await self._parts.database.read(count_pending(self._parts.owner, MOST_PENDING))
        if pending == MOST_PENDING:  # the other engine has enough for now
            return LOOK_AGAIN
        result = await self._dispatch(min_age=timedelta(0), is_asked_for=False)
        if not result.dispatched:
            return None
        self._deliverer.wake()
        return timedelta(0)

    async def _dispatch(self, *, min_age: timedelta, is_asked_for: bool) -> CycleResult:
        """Run one cycle."""
        parts, begun = self._parts, monotonic()
        request = cycle_request(
            parts.owner,
            parts.trains,
            parts.settings,
            min_age_seconds=min_age.total_seconds(),
            has_submitter=parts.submitter is not None,
        )
        record = Record(
            owner=parts.owner,
            keep_for=parts.settings.cleanup.kept("JobDispatcherTrain"),
            is_asked_for=is_asked_for,
        )
        result = await run_cycle(parts.database, request, record)
        parts.events.emit(
            CycleEnded(
                service=SERVICE,
                verdict="idle" if result.is_idle else "worked",
                took=timedelta(seconds=monotonic() - begun),
                counts=result.counts,
            )
        )
        return result
