"""The ManifestManager: load, determine and queue, and the route of one cycle."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from gandy.model.manifest import Decision, DispatchView
from gandy.model.schedule import Dependent
from gandy.rules.deciding import Decider
from gandy.rules.dispatching import WantedEntry, entitled, looks, most_at_once, pick
from gandy.scheduler.cycle import (
    CycleRequest,
    CycleResult,
    DeterminedJobs,
    FreshManifests,
    LoadedManifests,
    ReapedInProgress,
    ReapedPending,
    TimedOutRuns,
    Written,
    write_decisions,
)
from gandy.scheduler.reaping import (
    cancel_timed_out_jobs,
    park_exhausted,
    reap_failed_jobs,
    reap_stale_in_progress_metadata,
    reap_stale_pending_metadata,
)
from gandy.store.drivers.database import Transaction  # noqa: TC001 - the engine reads it at run time
from gandy.store.manifests import (
    count_due,
    keep_backlog,
    load_due,
    load_few_due,
    next_look,
    read_now,
    recall_backlog,
    wake_dependents,
)
from gandy.train.base import Train

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from gandy.scheduler.cycle import Decided
    from gandy.store.manifests import Backlog
    from gandy.store.reaping import ParkedJob


async def load_manifests(request: CycleRequest, transaction: Transaction) -> LoadedManifests:
    """Load the manifests due by their own instant or by the end of a parent, a share of each group."""
    begun, limit = request.monotonic(), request.settings.max_entries_per_cycle
    await transaction.run(wake_dependents())
    due = await transaction.run(load_few_due(most_at_once(limit)))
    if due is None:
        demands = await transaction.run(count_due())
        due = await transaction.run(load_due(demands, looks(limit, demands, entitled(limit, demands, {}))))
    # Read the time after the manifests, so that none of them is due after `now`.
    now = await transaction.run(read_now())
    backlog = await transaction.run(recall_backlog(now)) if due.views else None
    return LoadedManifests(now, marked(due.views, backlog), due.unreadable, due.left_over, backlog, begun)


def marked(views: tuple[DispatchView, ...], backlog: Backlog | None) -> tuple[DispatchView, ...]:
    """Set on snapshots since when their due instants have been deferred for lack of a place."""
    return views if backlog is None else tuple(backlog.mark(view) for view in views)


_log = logging.getLogger("gandy.manifest_manager")

#: A schedule that this version cannot read may be readable after the next deploy.
_UNREADABLE_RETRY_AFTER: Final = timedelta(hours=1)


def determine_jobs_to_queue(loaded: LoadedManifests, fresh: FreshManifests) -> DeterminedJobs:
    """Decide about each manifest; sync, so that it runs in a thread and does not block the event loop."""
    return decide_all(fresh, loaded.now)


def decide_all(fresh: FreshManifests, now: datetime) -> DeterminedJobs:
    """Decide about each manifest at one instant; return only decisions that change something."""
    timed = [view for view in fresh.views if not isinstance(view.schedule, Dependent)]
    dependents = [view for view in fresh.views if isinstance(view.schedule, Dependent)]
    decider = Decider(now)
    decided = (
        (view, _decide(view, decider, fresh.unreadable.get(view.id))) for view in (*timed, *dependents)
    )
    return DeterminedJobs(tuple(pair for pair in decided if _changes(*pair)))


def _decide(view: DispatchView, decider: Decider, problem: str | None) -> Decision:
    if problem is None:
        try:
            return decider.determine(view)
        except Exception as error:  # noqa: BLE001 - a failing schedule must not stop the others
            problem = f"it cannot be evaluated: {type(error).__name__}: {error}"
            _log.error("manifest %s: %s", view.external_id, problem)
    look_again = decider.now + _UNREADABLE_RETRY_AFTER
    return Decision(view.next_scheduled_run, next_look_at=look_again, problem=problem)


def _changes(view: DispatchView, decision: Decision) -> bool:
    return (
        decision.has_verdict
        or decision.problem is not None
        or decision.next_scheduled_run != view.next_scheduled_run
        or decision.next_look_at != view.next_look_at
    )


class Looked(NamedTuple):
    """One set of looks: the snapshots, all and the chosen decisions, and the number of other manifests."""

    fresh: FreshManifests
    decided: Sequence[Decided]
    chosen: Sequence[Decided]
    others: int  #: due, but not looked at


@dataclass(slots=True)
class Done:
    """The progress of a cycle."""

    written: Written = field(default_factory=Written)
    parked: list[ParkedJob] = field(default_factory=list)
    queued_of: Counter[int] = field(default_factory=Counter)  #: entries, by group
    looked_at: int = 0
    contended: int = 0
    left_over: int = 0
    is_stuck: bool = False  #: the last looks changed nothing

    def add(self, looked: Looked, written: Written) -> None:
        """Add the results of one set of looks."""
        settled = written.settled
        self.written.add(written)
        self.parked += looked.fresh.parked
        self.queued_of.update(view.group_id for view, _ in written.moved if view.id in written.queued)
        self.looked_at += len(looked.fresh.views)
        self.contended += len({view.id for view, _ in looked.chosen} - settled)
        self.left_over = looked.others + len(looked.decided) - len(looked.chosen)
        self.is_stuck = not settled


class Looking(NamedTuple):
    """A cycle that may look at further manifests."""

    request: CycleRequest
    loaded: LoadedManifests

    @property
    def limit(self) -> int | None:
        """The maximum number of entries of the cycle."""
        return self.request.settings.max_entries_per_cycle

    def goes_on(self, done: Done) -> bool:
        """Return whether more manifests are due, and neither the limit nor the time is used up."""
        is_full = self.limit is not None and done.queued_of.total() >= self.limit
        took = self.request.monotonic() - self.loaded.begun
        has_time = took < self.request.look_for.total_seconds()
        return bool(done.left_over) and has_time and not is_full and not done.is_stuck


async def look_further(transaction: Transaction, looking: Looking, done: Done) -> None:
    """Look at twice as many manifests each round until the entries are found: most looks yield none."""
    times = 2
    while looking.goes_on(done):
        demands = await transaction.run(count_due())
        entries = entitled(looking.limit, demands, done.queued_of)
        wanted = looks(looking.limit, demands, entries, times=times)
        due = await transaction.run(load_due(demands, wanted, free_first=True))
        now = await transaction.run(read_now())
        seen = replace(due, views=marked(due.views, looking.loaded.backlog))
        fresh = await park_exhausted(transaction, seen, looking.request.retry)
        decided = (await asyncio.to_thread(decide_all, fresh, now)).decided
        chosen = _within_shares(decided, entries)
        written = await write_decisions(transaction, chosen, charges_all=looking.request.charges_all)
        done.add(Looked(fresh, decided, chosen, due.left_over), written)
        times *= 2


def within_limit(decided: Sequence[Decided], limit: int | None) -> Sequence[Decided]:
    """Keep every decision without an entry, and as many decisions with an entry as a cycle may queue."""
    if limit is None or len(decided) <= limit:
        return decided
    wanted = _wanted(decided)
    return decided if len(wanted) <= limit else _only(decided, pick(limit, wanted))


def _within_shares(decided: Sequence[Decided], entries: Mapping[int, int]) -> Sequence[Decided]:
    """Do the same with a limit for each group."""
    wanted, groups = _wanted(decided), defaultdict[int, list[WantedEntry]](list)
    for entry in wanted:
        groups[entry.group_id].append(entry)
    picked = [entry for group_id, group in groups.items() for entry in pick(entries.get(group_id, 0), group)]
    return decided if len(picked) == len(wanted) else _only(decided, picked)


def _wanted(decided: Sequence[Decided]) -> list[WantedEntry]:
    return [
        WantedEntry(view.id, view.group_id, view.group_priority, entry.priority, entry.due_at)
        for view, decision in decided
        if (entry := decision.occurrence) is not None
    ]


def _only(decided: Sequence[Decided], picked: Sequence[WantedEntry]) -> Sequence[Decided]:
    ids = {entry.manifest_id for entry in picked}
    return [pair for pair in decided if pair[1].occurrence is None or pair[0].id in ids]


async def create_work_queue_entries(
    request: CycleRequest,
    loaded: LoadedManifests,
    determined: DeterminedJobs,
    *,
    fresh: FreshManifests,
    timed_out: TimedOutRuns,
    pending: ReapedPending,
    in_progress: ReapedInProgress,
    transaction: Transaction,
) -> CycleResult:
    """Write the decisions, and look further while the limit allows: it counts entries, not looks."""
    chosen = within_limit(determined.decided, request.settings.max_entries_per_cycle)
    written = await write_decisions(transaction, chosen, charges_all=request.charges_all)
    done = Done()
    done.add(Looked(fresh, determined.decided, chosen, loaded.left_over), written)
    await look_further(transaction, Looking(request, loaded), done)
    backlog = keep_backlog(loaded.now, loaded.backlog, is_behind=done.left_over > 0)
    await transaction.run(backlog)
    seconds = await transaction.run(next_look())
    return CycleResult(
        looked_at=done.looked_at,
        queued=len(done.written.queued),
        skipped=done.written.skipped,
        contended=done.contended,
        errors=len(done.written.errors),
        left_over=done.left_over,
        timed_out=timed_out.run_ids,
        reaped=pending.runs + in_progress.runs,
        recovered={**pending.causes, **in_progress.causes},
        parked=(*pending.parked, *in_progress.parked, *done.parked),
        lateness=_lateness(done.written, loaded.now),
        silent_workers=in_progress.silent_workers,
        next_lease_end=in_progress.next_lease_end,
        next_look=None if seconds is None else timedelta(seconds=seconds),
    )


def _lateness(written: Written, now: datetime) -> timedelta:
    """Return the lateness of the latest entry, by its nominal instant."""
    instants = [
        decision.occurrence.due_at
        for view, decision in written.moved
        if decision.occurrence is not None and view.id in written.queued
    ]
    return max(now - min(instants, default=now), timedelta(0))


class ManifestManagerTrain(Train[CycleRequest, CycleResult]):
    """One cycle, inside the given transaction: all of it is committed, or nothing."""

    route = (
        load_manifests,
        cancel_timed_out_jobs,
        reap_stale_pending_metadata,
        reap_stale_in_progress_metadata,
        reap_failed_jobs,
        determine_jobs_to_queue,
        create_work_queue_entries,
    )
