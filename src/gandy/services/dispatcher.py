"""When the dispatcher runs: woken by notifications, and every two seconds regardless."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from gandy.admin.job_dispatcher.running import cycle_request, run_cycle
from gandy.admin.running import Record
from gandy.events import CycleEnded
from gandy.services.polling import Poller
from gandy.submit import deliver_pending

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from gandy.admin.job_dispatcher.cycle import CycleResult
    from gandy.events import EventBus
    from gandy.services.wakeups import Wakeups
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.submit import Submitter

SERVICE: Final = "dispatcher"


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
        wakeups = parts.wakeups
        self._wake = wakeups.event("later") if parts.submitter is None else wakeups.event("work", "later")

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until told to stop."""
        poll_every = self._parts.settings.dispatcher.poll_every
        await Poller(SERVICE, self._cycle, poll_every=poll_every, wake=self._wake).run(stop)

    async def tick(self) -> CycleResult:
        """Run exactly one cycle because a person asks for it."""
        return await self._dispatch(min_age=timedelta(0), is_asked_for=True)

    async def _cycle(self) -> timedelta | None:
        poll_every = self._parts.settings.dispatcher.poll_every
        min_age = poll_every if self._parts.submitter is None else timedelta(0)
        await self._dispatch(min_age=min_age, is_asked_for=False)
        return None

    async def _dispatch(self, *, min_age: timedelta, is_asked_for: bool) -> CycleResult:
        """Run one cycle, and hand over what it dispatched where a submitter takes it."""
        parts, begun = self._parts, monotonic()
        request = cycle_request(
            parts.owner, parts.trains, parts.settings, min_age_seconds=min_age.total_seconds()
        )
        record = Record(
            owner=parts.owner, keep_for=parts.settings.cleanup.retention, is_asked_for=is_asked_for
        )
        result = await run_cycle(parts.database, request, record)
        if parts.submitter is not None:
            await deliver_pending(parts.database, parts.owner, parts.submitter, events=parts.events)
        parts.events.emit(
            CycleEnded(
                service=SERVICE,
                verdict="idle" if result.is_idle else "worked",
                took=timedelta(seconds=monotonic() - begun),
                counts=result.counts,
            )
        )
        return result
