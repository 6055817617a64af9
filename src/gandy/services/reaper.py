"""Recovering runs beside a worker: runs that another process left behind are found without a manager."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from gandy.admin.manifest_manager.cycle import CycleRequest
from gandy.admin.manifest_manager.recovery import recover_runs
from gandy.admin.manifest_manager.repair import REPAIR_EVERY_SECONDS
from gandy.events import RunsRecovered
from gandy.services.lease_watch import LeaseWatch
from gandy.services.polling import Poller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from gandy.admin.clock_trust import ClockTrust
    from gandy.events import EventBus, RecoveryCause
    from gandy.services.wakeups import Wakeups
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database

SERVICE: Final = "reaper"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaperParts:
    """What the application gives to its reaper."""

    database: Database
    settings: Settings
    events: EventBus
    wakeups: Wakeups
    trust: ClockTrust | None = None  #: None: the clock is believed


class ReaperService:
    """Recovers runs and evaluates no schedule; any number of servers may do so at once."""

    def __init__(self, parts: ReaperParts) -> None:
        self._parts = parts
        self._wake = asyncio.Event()
        self._watch = LeaseWatch(parts.database, parts.settings.worker.heartbeat_every)
        self._clock_seen_at: float | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until told to stop."""
        poll_every = self._parts.settings.manifest_manager.poll_every
        try:
            await Poller(SERVICE, self._cycle, poll_every=poll_every, wake=self._wake).run(stop)
        finally:
            await self._watch.close()

    async def _cycle(self) -> timedelta | None:
        parts = self._parts
        await self._see_clock()
        request = CycleRequest(
            settings=parts.settings.manifest_manager,
            retention=parts.settings.retention,
            retry=parts.settings.retry,
            cleanup=parts.settings.cleanup,
            trusts_leases=self._watch.is_trusted,
        )
        result = await recover_runs(parts.database, request)
        if result is None:
            return None
        tell_recovery(parts.events, parts.wakeups, timed_out=result.timed_out, recovered=result.recovered)
        if result.recovered:
            parts.wakeups.wake("work")
        self._watch.follow(
            self._wake.set, silent_workers=result.silent_workers, next_lease_end=result.next_lease_end
        )
        return self._watch.pause(result.next_lease_end)

    async def _see_clock(self) -> None:
        """Keep the mark of the clock where no manifest manager does so."""
        is_due = self._clock_seen_at is None or monotonic() - self._clock_seen_at >= REPAIR_EVERY_SECONDS
        if self._parts.trust is not None and is_due:
            self._clock_seen_at = monotonic()
            await self._parts.trust.examine()


def tell_recovery(
    events: EventBus, wakeups: Wakeups, *, timed_out: Iterable[int], recovered: Mapping[RecoveryCause, int]
) -> None:
    """Say what is committed, and stop at once what this process can stop."""
    for run_id in timed_out:
        wakeups.tell("cancel", str(run_id))
    for cause, count in recovered.items():
        events.emit(RunsRecovered(cause=cause, count=count))
