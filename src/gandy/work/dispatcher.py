"""The JobDispatcher: its junctions, its route, and the service that runs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from gandy.events import CycleEnded
from gandy.loops.cycles import Record, run_in_transaction
from gandy.loops.poller import Poller
from gandy.store import dispatching
from gandy.store.dispatching import (
    DispatchRequest,
    announce_pending,
    choose_entries,
    dispatch_entries,
    load_entries,
    ready_groups,
)
from gandy.store.drivers.database import Transaction  # noqa: TC001 - the engine reads it at run time
from gandy.store.queueing import hold_unknown, open_due
from gandy.store.runs import count_pending
from gandy.store.workers import live_workers
from gandy.submit import Deliverer
from gandy.train.base import Train

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.context import Context
    from gandy.loops.wakeups import Wakeups
    from gandy.model.run import ClaimedRun
    from gandy.rules.dispatching import Capacity
    from gandy.settings import Settings
    from gandy.store.dispatching import ReadyGroup
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchCycleRequest:
    """The input of a cycle: the owner whose work is dispatched, and the caps."""

    owner: str
    known_trains: tuple[str, ...]  #: of this application; those of live workers are added
    max_active_jobs: int | None  #: set by the user; None with `is_cap_auto`: by the slots of live workers
    is_cap_auto: bool
    max_per_group: int
    default_timeout_seconds: float
    min_age_seconds: float = 0.0  #: leave younger entries to workers, which claim for themselves


@dataclass(frozen=True, slots=True)
class ReadyGroups:
    """The groups that have ready work, and the request to dispatch it."""

    request: DispatchRequest
    groups: Sequence[ReadyGroup]
    opened: int
    held: int

    @property
    def by_id(self) -> dict[int, ReadyGroup]:
        """The groups by their ids."""
        return {group.id: group for group in self.groups}


@dataclass(frozen=True, slots=True)
class MeasuredCapacity:
    """The caps and the number of active runs under them."""

    capacity: Capacity


@dataclass(frozen=True, slots=True)
class ChosenEntries:
    """The entries that may run now."""

    entries: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchCycleResult:
    """The result of a cycle."""

    dispatched: tuple[ClaimedRun, ...] = ()
    held: int = 0
    opened: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the cycle, by name."""
        return {"dispatched": len(self.dispatched), "held": self.held, "opened": self.opened}

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not any(self.counts.values())


LEAST_AUTO_CAP = 10
AUTO_CAP_PER_SLOT = 2


async def load_ready(request: DispatchCycleRequest, transaction: Transaction) -> ReadyGroups:
    """Open due entries, hold entries that no live worker can run, and find the groups with ready work."""
    workers = await transaction.run(live_workers(request.owner))
    trains = sorted({*request.known_trains, *(train for worker in workers for train in worker.trains)})
    opened = await transaction.run(open_due(request.owner))
    held = await transaction.run(hold_unknown(request.owner, trains))
    cap = request.max_active_jobs
    if request.is_cap_auto:
        cap = max(LEAST_AUTO_CAP, AUTO_CAP_PER_SLOT * sum(worker.slots for worker in workers))
    groups = await transaction.run(ready_groups(request.owner, trains))
    dispatch_request = DispatchRequest(
        owner=request.owner,
        trains=trains,
        limit=request.max_per_group * max(1, len(groups)),
        per_group=request.max_per_group,
        default_timeout_seconds=request.default_timeout_seconds,
        max_active_jobs=cap,
        min_age_seconds=request.min_age_seconds,
    )
    return ReadyGroups(dispatch_request, groups, opened, held)


async def measure_capacity(ready: ReadyGroups, transaction: Transaction) -> MeasuredCapacity:
    """Lock the capped groups, then count: only this order keeps a cap exact across servers."""
    capacity = await transaction.run(dispatching.measure_capacity(ready.request, ready.groups))
    return MeasuredCapacity(capacity)


async def apply_capacity(
    ready: ReadyGroups, measured: MeasuredCapacity, transaction: Transaction
) -> ChosenEntries:
    """Choose the first entries of each group with room; a full global cap ends the cycle."""
    work = await transaction.run(load_entries(ready.request, ready.groups, measured.capacity))
    return ChosenEntries(choose_entries(work, ready.request))


async def dispatch(
    ready: ReadyGroups, chosen: ChosenEntries, transaction: Transaction
) -> DispatchCycleResult:
    """Create the runs, mark the entries, and notify the workers of pending runs."""
    if not chosen.entries:
        return DispatchCycleResult(opened=ready.opened, held=ready.held)
    dispatched = await transaction.run(dispatch_entries(ready.request, chosen.entries, ready.by_id))
    if dispatched.runs:
        await transaction.run(announce_pending(ready.request.owner))
    return DispatchCycleResult(
        dispatched=dispatched.runs, held=ready.held + dispatched.held, opened=ready.opened
    )


class JobDispatcherTrain(Train[DispatchCycleRequest, DispatchCycleResult]):
    """One cycle, inside the given transaction: all of it is committed, or nothing."""

    route = (load_ready, measure_capacity, apply_capacity, dispatch)


def cycle_request(
    owner: str,
    trains: Sequence[str],
    settings: Settings,
    *,
    min_age_seconds: float = 0.0,
    has_submitter: bool = False,
) -> DispatchCycleRequest:
    """Build a cycle's request from the settings; with a submitter our slots do not limit the active runs."""
    cap = settings.dispatcher.max_active_jobs
    return DispatchCycleRequest(
        owner=owner,
        known_trains=tuple(trains),
        max_active_jobs=cap if isinstance(cap, int) else None,
        is_cap_auto=cap == "auto" and not has_submitter,
        max_per_group=settings.dispatcher.max_per_group,
        default_timeout_seconds=settings.manifest_manager.default_timeout.total_seconds(),
        min_age_seconds=min_age_seconds,
    )


async def run_cycle(database: Database, request: DispatchCycleRequest, record: Record) -> DispatchCycleResult:
    """Run one cycle and record it."""
    result = await run_in_transaction(database, JobDispatcherTrain, request, record=record)
    return result or DispatchCycleResult()


SERVICE: Final = "dispatcher"
#: With a submitter, the maximum number of runs that wait for the other engine.
MOST_PENDING: Final = 1_000
LONGEST_SKIP: Final = 60.0
LOOK_AGAIN: Final = timedelta(milliseconds=100)


class DispatcherService:
    """Dispatches entries; with our own workers, only those that no worker claimed within one poll."""

    def __init__(self, context: Context, wakeups: Wakeups) -> None:
        self._context = context
        self._wakeups = wakeups
        self._looked_at = -LONGEST_SKIP
        submitter = context.submitter
        self._wake = wakeups.event("later") if submitter is None else wakeups.event("work", "later")
        self._deliverer = (
            None
            if submitter is None
            else Deliverer(context.database, context.owner, submitter, events=context.events)
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until stopped, and concurrently deliver the dispatched runs to the submitter."""
        poll_every = self._context.settings.dispatcher.poll_every
        poller = Poller(SERVICE, self._cycle, poll_every=poll_every, wake=self._wake)
        if self._deliverer is None:
            return await poller.run(stop)
        delivering = asyncio.create_task(self._deliverer.run(poll_every), name="gandy-deliverer")
        polling = asyncio.create_task(poller.run(stop), name="gandy-dispatcher")
        try:
            done, _ = await asyncio.wait((delivering, polling), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # an exception of either task ends the service
        finally:
            for task in (delivering, polling):
                task.cancel()
            await asyncio.gather(delivering, polling, return_exceptions=True)
            await self._deliverer.close()

    async def tick(self) -> DispatchCycleResult:
        """Run exactly one cycle, requested by an operator."""
        result = await self._dispatch(min_age=timedelta(0), is_requested=True)
        if self._deliverer is not None:
            await self._deliverer.deliver_due()
        return result

    async def _cycle(self) -> timedelta | None:
        if self._deliverer is None:
            await self._dispatch_left()
            return None
        pending = await self._context.database.read(count_pending(self._context.owner, MOST_PENDING))
        if pending == MOST_PENDING:  # backpressure: the other engine has enough runs
            return LOOK_AGAIN
        result = await self._dispatch(min_age=timedelta(0), is_requested=False)
        if not result.dispatched:
            return None
        self._deliverer.wake()
        return timedelta(0)

    async def _dispatch_left(self) -> None:
        """Dispatch what no worker claimed; if a worker of this process saw an empty queue, there is nothing.

        Once a minute the cycle looks all the same, for its record.
        """
        poll_every, now = self._context.settings.dispatcher.poll_every, monotonic()
        if now - self._looked_at < LONGEST_SKIP and self._wakeups.was_empty(poll_every):
            self._tell(DispatchCycleResult(), now)
            return
        await self._dispatch(min_age=poll_every, is_requested=False)
        self._looked_at = now

    async def _dispatch(self, *, min_age: timedelta, is_requested: bool) -> DispatchCycleResult:
        """Run one cycle."""
        context, begun = self._context, monotonic()
        request = cycle_request(
            context.owner,
            context.registry.names,
            context.settings,
            min_age_seconds=min_age.total_seconds(),
            has_submitter=context.submitter is not None,
        )
        record = Record(
            owner=context.owner,
            keep_for=context.settings.cleanup.kept("JobDispatcherTrain"),
            is_requested=is_requested,
        )
        result = await run_cycle(context.database, request, record)
        self._tell(result, begun)
        return result

    def _tell(self, result: DispatchCycleResult, begun: float) -> None:
        self._context.events.emit(
            CycleEnded(
                service=SERVICE,
                verdict="idle" if result.is_idle else "worked",
                took=timedelta(seconds=monotonic() - begun),
                counts=result.counts,
            )
        )
