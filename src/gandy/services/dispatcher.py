"""When the dispatcher runs: woken by notifications, and every two seconds regardless."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gandy.admin.job_dispatcher.running import cycle_request, run_cycle
from gandy.admin.running import Record
from gandy.errors import GandyError
from gandy.services.wakeups import wait_for_wake
from gandy.submit import deliver_pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.admin.job_dispatcher.cycle import CycleResult
    from gandy.events import EventBus
    from gandy.services.wakeups import Wakeups
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.submit import Submitter

_log = logging.getLogger("gandy.dispatcher")

RETRY_AFTER_SECONDS: Final = 1.0


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
        topics: tuple[Literal["work", "later"], ...] = (
            ("later",) if parts.submitter is None else ("work", "later")
        )
        self._wake = parts.wakeups.event(*topics)

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until told to stop."""
        poll = self._parts.settings.dispatcher.poll_every.total_seconds()
        while not stop.is_set():
            try:
                await self.tick(min_age_seconds=poll if self._parts.submitter is None else 0.0)
            except GandyError as error:
                _log.warning("%s", error)
            await _wait(stop, self._wake, poll)

    async def tick(self, *, min_age_seconds: float = 0.0, is_asked_for: bool = False) -> CycleResult:
        """Run one cycle, and hand over what it dispatched where a submitter takes it."""
        parts = self._parts
        request = cycle_request(parts.owner, parts.trains, parts.settings, min_age_seconds=min_age_seconds)
        record = Record(
            owner=parts.owner, keep_for=parts.settings.cleanup.retention, is_asked_for=is_asked_for
        )
        result = await run_cycle(parts.database, request, record)
        if parts.submitter is not None:
            await deliver_pending(parts.database, parts.owner, parts.submitter, events=parts.events)
        return result


async def _wait(stop: asyncio.Event, wake: asyncio.Event, seconds: float) -> None:
    """Sleep until woken, until the time is over, or until the end."""
    stopping = asyncio.create_task(stop.wait())
    waking = asyncio.create_task(wait_for_wake(wake, seconds))
    await asyncio.wait((stopping, waking), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    waking.cancel()
