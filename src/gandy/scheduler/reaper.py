"""The service that recovers runs of lost workers, and the check whether an expired lease can be trusted."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.events import DeadLettered, RunsRecovered
from gandy.loops.poller import Poller
from gandy.scheduler.cycle import CycleRequest
from gandy.scheduler.reaping import recover_runs
from gandy.scheduler.repair import REPAIR_EVERY_SECONDS
from gandy.store.reaping import ask_database
from gandy.train.hooks import HookDelivery, HookEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gandy.context import Context
    from gandy.events import EventBus, RecoveryCause
    from gandy.loops.wakeups import Wakeups
    from gandy.store.drivers.database import Database
    from gandy.store.reaping import ParkedJob


#: The number of probes in one heartbeat interval; each must be answered before the next one.
_LOOKS: Final = 4


class LeaseWatch:
    """Probes the database for one heartbeat interval, during which every live worker renews its lease.

    After an outage of the database the leases of live workers have expired, too.
    """

    def __init__(self, database: Database, heartbeat_every: timedelta) -> None:
        self._database = database
        self._interval = heartbeat_every.total_seconds()
        self._confirmed_at: float | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether the database has answered all probes of the last interval."""
        return self._confirmed_at is not None and monotonic() - self._confirmed_at < self._interval

    def follow(
        self, on_confirmed: Callable[[], None], *, silent_workers: int, next_lease_end: timedelta | None
    ) -> None:
        """Begin to watch before the first lease expires, so that a lost worker is detected at the expiry."""
        is_near = next_lease_end is not None and next_lease_end.total_seconds() <= self._interval
        if (silent_workers or is_near) and not self.is_trusted:
            self.begin(on_confirmed)

    def pause(self, next_lease_end: timedelta | None) -> timedelta | None:
        """Return the pause before the leases are checked again; None: there is no lease."""
        if next_lease_end is None:
            return None
        heartbeat = timedelta(seconds=self._interval)
        return max(next_lease_end - heartbeat, heartbeat / 2)

    def begin(self, on_confirmed: Callable[[], None]) -> None:
        """Start to watch in the background, unless a watch is running."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch(on_confirmed), name="gandy-lease-watch")

    async def confirm(self) -> bool:
        """Watch for one interval; return False if the database missed a probe."""
        step = self._interval / _LOOKS
        for _ in range(_LOOKS):
            begun = monotonic()
            try:
                await asyncio.wait_for(self._database.read(ask_database()), step)
            except (GandyError, TimeoutError):
                return False
            await asyncio.sleep(max(step - (monotonic() - begun), 0.0))
        self._confirmed_at = monotonic()
        return True

    async def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, on_confirmed: Callable[[], None]) -> None:
        if await self.confirm():
            on_confirmed()


SERVICE: Final = "reaper"


class ReaperService:
    """Recovers runs without evaluating schedules; any number of servers may do so concurrently."""

    def __init__(self, context: Context, wakeups: Wakeups) -> None:
        self._context = context
        self._wakeups = wakeups
        self._wake = asyncio.Event()
        self._watch = LeaseWatch(context.database, context.settings.worker.heartbeat_every)
        self._hooks = HookDelivery(context.hooks, timeout=context.settings.hooks.timeout)
        self._clock_seen_at: float | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until `stop` is set."""
        poll_every = self._context.settings.manifest_manager.poll_every
        try:
            await Poller(SERVICE, self._cycle, poll_every=poll_every, wake=self._wake).run(stop)
        finally:
            await self._watch.close()
            await self._hooks.close(self._context.settings.worker.shutdown_grace.total_seconds())

    async def _cycle(self) -> timedelta | None:
        context = self._context
        await self._see_clock()
        request = CycleRequest(
            settings=context.settings.manifest_manager,
            retention=context.settings.retention,
            retry=context.settings.retry,
            cleanup=context.settings.cleanup,
            trusts_leases=self._watch.is_trusted,
        )
        result = await recover_runs(context.database, request)
        if result is None:
            return None
        announce_recovery(
            context.events, self._wakeups, timed_out=result.timed_out, recovered=result.recovered
        )
        announce_parked(context.events, self._hooks, result.parked)
        if result.recovered:
            self._wakeups.wake("work")
        self._watch.follow(
            self._wake.set, silent_workers=result.silent_workers, next_lease_end=result.next_lease_end
        )
        return self._watch.pause(result.next_lease_end)

    async def _see_clock(self) -> None:
        """Record the latest trusted time, for deployments without a manifest manager."""
        is_due = self._clock_seen_at is None or monotonic() - self._clock_seen_at >= REPAIR_EVERY_SECONDS
        if self._context.trust is not None and is_due:
            self._clock_seen_at = monotonic()
            await self._context.trust.examine()


def announce_parked(events: EventBus, hooks: HookDelivery, parked: Iterable[ParkedJob]) -> None:
    """Announce dead letters whose writing is committed."""
    for job in parked:
        events.emit(
            DeadLettered(run_id=job.run_id, train=job.train, manifest=job.manifest, reason=job.reason)
        )
        hooks.deliver(
            HookEvent(
                name="dead_lettered",
                train=job.train,
                run_id=job.run_id,
                attempt=job.attempt,
                manifest=job.manifest,
                reason=job.reason,
            )
        )


def announce_recovery(
    events: EventBus, wakeups: Wakeups, *, timed_out: Iterable[int], recovered: Mapping[RecoveryCause, int]
) -> None:
    """Announce committed recoveries, and cancel timed-out runs of this process at once."""
    for run_id in timed_out:
        wakeups.tell("cancel", str(run_id))
    for cause, count in recovered.items():
        events.emit(RunsRecovered(cause=cause, count=count))
