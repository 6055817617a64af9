"""The service that evaluates schedules."""

from __future__ import annotations

import logging
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

from gandy.errors import DatabaseFaultError, SetRefusedError
from gandy.events import CycleEnded, HintRepaired, OccurrencesQueued
from gandy.loops.cycles import Record, run_in_transaction
from gandy.loops.poller import Poller
from gandy.scheduler.cycle import CycleRequest
from gandy.scheduler.manager import ManifestManagerTrain
from gandy.scheduler.reaper import LeaseWatch, announce_parked, announce_recovery
from gandy.scheduler.repair import REPAIR_EVERY_SECONDS, repair_clock, repair_hints
from gandy.store.manifests import try_lock_cycle
from gandy.store.owners import CHARGED_AFTER, count_refusal, remember
from gandy.store.seeding import seed_bisecting
from gandy.train.hooks import HookDelivery
from gandy.work.layouts import LayoutRecord

if TYPE_CHECKING:
    import asyncio

    from gandy.context import Context
    from gandy.loops.wakeups import Wakeups
    from gandy.scheduler.cycle import CycleResult
    from gandy.store.seeding import SeedResult


_log = logging.getLogger("gandy.manifest_manager")

SERVICE: Final = "manifest-manager"
#: Avoids a busy loop over a look that stays due although nothing can be decided.
_SHORTEST_PAUSE: Final = timedelta(milliseconds=200)
_NOW: Final = timedelta(0)
_REFUSALS: Final = "manifest_manager.refusals"


class ManifestManagerService:
    """Seeds at its start, then evaluates schedules; any number of servers may do so concurrently."""

    def __init__(self, context: Context, wakeups: Wakeups) -> None:
        self._context = context
        self._wakeups = wakeups
        self._wake = wakeups.event("manager")
        self._watch = LeaseWatch(context.database, context.settings.worker.heartbeat_every)
        self._hooks = HookDelivery(context.hooks, timeout=context.settings.hooks.timeout)
        self._is_seeded = False
        self._seedings = 0
        self._was_refused = False
        self._repaired_at = monotonic()
        self._clock_seen_at: float | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until `stop` is set."""
        poll_every = self._context.settings.manifest_manager.poll_every
        poller = Poller(SERVICE, self._cycle, poll_every=poll_every, wake=self._wake)
        try:
            await poller.run(stop)
        finally:
            await self._watch.close()
            await self._hooks.close(self._context.settings.worker.shutdown_grace.total_seconds())

    async def seed(self) -> SeedResult:
        """Write the declarations of the application into manifests."""
        await LayoutRecord(self._context.database, self._context.owner).record(self._context.registry)
        result = await seed_bisecting(self._context.database, self._context.declarations)
        for refused in result.refused:
            _log.error("%s was not seeded: %s", refused.name, refused.problem)
        self._is_seeded = True
        return result

    async def tick(self) -> CycleResult | None:
        """Run one cycle, requested by an operator; if leases have expired, confirm them and run another."""
        await self._put_clock_right(is_requested=True)
        result = await self._run(is_requested=True)
        if result is not None and result.silent_workers and await self._watch.confirm():
            result = await self._run(is_requested=True)
        await self._hooks.settle(self._context.settings.worker.shutdown_grace.total_seconds())
        return result

    async def _cycle(self) -> timedelta | None:
        if not self._is_seeded:
            await self._seed_at_start()
        if self._clock_seen_at is None or monotonic() - self._clock_seen_at >= REPAIR_EVERY_SECONDS:
            await self._put_clock_right(is_requested=False)
        result = await self._run(is_requested=False)
        await self._repair()
        if result is None:
            return None
        self._watch.follow(
            self._wake.set, silent_workers=result.silent_workers, next_lease_end=result.next_lease_end
        )
        return self._pause(result)

    async def _seed_at_start(self) -> None:
        """Seed; a refusal does not prevent the evaluation of existing manifests."""
        try:
            await self.seed()
        except Exception as error:
            if isinstance(error, DatabaseFaultError) and not isinstance(error, SetRefusedError):
                raise
            self._seedings += 1
            self._is_seeded = self._seedings >= CHARGED_AFTER
            follows = "giving up" if self._is_seeded else "the next cycle tries again"
            _log.error("nothing was seeded; %s: %s", follows, error)

    async def _run(self, *, is_requested: bool) -> CycleResult | None:
        """Run a cycle; after CHARGED_AFTER consecutive cycles with all items refused, charge each item."""
        try:
            result = await self._run_cycle(is_requested=is_requested)
        except SetRefusedError:
            self._was_refused = True
            if await self._context.database.run(count_refusal(_REFUSALS)) < CHARGED_AFTER:
                raise
            result = await self._run_cycle(is_requested=is_requested, charges_all=True)
        if self._was_refused and result is not None:
            await self._context.database.run(remember(_REFUSALS, None))
            self._was_refused = False
        return result

    async def _run_cycle(self, *, is_requested: bool, charges_all: bool = False) -> CycleResult | None:
        context, begun = self._context, monotonic()
        settings = context.settings.manifest_manager
        request = CycleRequest(
            settings=settings,
            retention=context.settings.retention,
            retry=context.settings.retry,
            cleanup=context.settings.cleanup,
            trusts_leases=self._watch.is_trusted,
            charges_all=charges_all,
        )
        record = Record(
            owner=context.owner,
            keep_for=context.settings.cleanup.kept(ManifestManagerTrain.definition.name),
            is_requested=is_requested,
        )
        try:
            result = await run_in_transaction(
                context.database,
                ManifestManagerTrain,
                request,
                record=record,
                lock=try_lock_cycle if settings.advisory_lock else None,
            )
        except Exception as error:
            self._tell("failed", begun, error=str(error))
            raise
        if result is None:
            self._tell("skipped", begun)
        else:
            self._tell_result(result, begun)
        return result

    def _tell_result(self, result: CycleResult, begun: float) -> None:
        """Announce committed results, and cancel timed-out runs of this process at once."""
        context = self._context
        announce_recovery(
            context.events, self._wakeups, timed_out=result.timed_out, recovered=result.recovered
        )
        if result.queued:
            context.events.emit(OccurrencesQueued(count=result.queued, lateness=result.lateness))
            self._wakeups.wake("work")
        announce_parked(context.events, self._hooks, result.parked)
        self._tell("idle" if result.is_idle else "worked", begun, result=result)

    def _tell(
        self,
        verdict: Literal["worked", "idle", "skipped", "failed"],
        begun: float,
        *,
        result: CycleResult | None = None,
        error: str | None = None,
    ) -> None:
        self._context.events.emit(
            CycleEnded(
                service=SERVICE,
                verdict=verdict,
                took=timedelta(seconds=monotonic() - begun),
                counts={} if result is None else result.counts,
                error=error,
            )
        )

    async def _put_clock_right(self, *, is_requested: bool) -> None:
        """Repair cursors that a wrong clock set; do nothing while the clock is far behind."""
        context, self._clock_seen_at = self._context, monotonic()
        found = None if context.trust is None else await context.trust.examine()
        if found is not None and found.is_behind:
            return
        page = context.settings.manifest_manager.repair_page
        result = await repair_clock(context.database, page=page, is_requested=is_requested)
        if result.cursors:
            context.events.emit(HintRepaired(count=result.cursors))

    async def _repair(self) -> None:
        if monotonic() - self._repaired_at < REPAIR_EVERY_SECONDS:
            return
        self._repaired_at = monotonic()
        settings = self._context.settings
        page = settings.manifest_manager.repair_page
        result = await repair_hints(self._context.database, page=page, retry=settings.retry)
        if result.repaired:
            self._context.events.emit(HintRepaired(count=result.repaired))

    def _pause(self, result: CycleResult) -> timedelta | None:
        if result.wants_another:
            return _NOW
        wanted = (result.next_look, self._watch.pause(result.next_lease_end))
        pauses = [pause for pause in wanted if pause is not None]
        if not pauses:
            return None
        shortest = min(pauses)
        return shortest if shortest > _NOW or not result.is_idle else _SHORTEST_PAUSE
