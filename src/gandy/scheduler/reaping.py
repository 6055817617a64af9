"""The reaping junctions for timed-out, stale and failed runs, and recovery without a manager."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.rules.deciding import is_exhausted_view
from gandy.rules.ending import is_spent
from gandy.scheduler.cycle import (
    CycleRequest,
    FreshManifests,
    LoadedManifests,
    ReapedInProgress,
    ReapedPending,
    TimedOutRuns,
)
from gandy.store.drivers.database import Transaction  # noqa: TC001 - the engine reads it at run time
from gandy.store.manifests import DueManifests, load_views
from gandy.store.reaping import (
    AT_ONCE,
    Reaped,
    cancel_timed_out,
    end_abandoned,
    end_bare,
    find_abandoned,
    find_overaged,
    find_silent_workers,
    find_stale_pending,
    mark_lost,
    next_lease_end,
    park_manifests,
    try_lock_recovery,
)
from gandy.store.runs import read_policies
from gandy.store.statements import write_bisecting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from gandy.events import RecoveryCause
    from gandy.settings import RetrySettings
    from gandy.store.drivers.database import Database
    from gandy.store.reaping import AbandonedRun, ParkedJob, ReapRules
    from gandy.store.statements import Operation, RefusedItem


_log = logging.getLogger("gandy.manifest_manager")

#: A page of runs that cannot be ended must not hide later runs; this is the maximum of pages per cycle.
_PAGES: Final = 10
_NAMED: Final = 5


async def reap(
    transaction: Transaction, find: Callable[[int], Operation[list[AbandonedRun]]], rules: ReapRules
) -> Reaped:
    """End the runs that `find` returns; read the next page only while a page contains runs that stay."""
    total, after = Reaped(), 0
    for _ in range(_PAGES):
        found = await transaction.run(find(after))
        part, stays = await _end(transaction, found, rules)
        total = _plus(total, part)
        if not stays or len(found) < AT_ONCE:
            break
        after = found[-1].end.id
    return total


async def _end(
    transaction: Transaction, found: Sequence[AbandonedRun], rules: ReapRules
) -> tuple[Reaped, bool]:
    """End runs; end refused ones with a bare record, and leave those that still fail to the next cycle."""
    if not found:
        return Reaped(), False
    # charges_all is safe: a refused run is only written in a simpler form, which may be refused, too.
    usual = await write_bisecting(found, _writing(transaction, end_abandoned, rules), charges_all=True)
    if not usual.refused:
        return _plus(*usual.written), False
    rest = [refused.item for refused in usual.refused]
    bare = await write_bisecting(rest, _writing(transaction, end_bare, rules), charges_all=True)
    _tell("was ended without its optional data", usual.refused)
    _tell("cannot be ended; the next cycle tries again", bare.refused)
    return _plus(*usual.written, *bare.written), bool(bare.refused)


def _writing(
    transaction: Transaction,
    end: Callable[[Sequence[AbandonedRun], ReapRules], Operation[Reaped]],
    rules: ReapRules,
) -> Callable[[Sequence[AbandonedRun]], Awaitable[Reaped]]:
    async def write(runs: Sequence[AbandonedRun]) -> Reaped:
        async with transaction.savepoint():
            return await transaction.run(end(runs, rules))

    return write


def _tell(what: str, refused: Sequence[RefusedItem[AbandonedRun]]) -> None:
    for each in refused[:_NAMED]:
        run = each.item.end
        _log.error("abandoned run %s of %s %s: %s", run.id, run.train, what, each.error)
    if len(refused) > _NAMED:
        _log.error("the same for %s more abandoned runs", len(refused) - _NAMED)


def _plus(*parts: Reaped) -> Reaped:
    return Reaped(
        sum(part.runs for part in parts),
        frozenset().union(*(part.manifest_ids for part in parts)),
        sum((Counter(part.causes) for part in parts), Counter()),
        tuple(job for part in parts for job in part.parked),
    )


async def cancel_timed_out_jobs(transaction: Transaction) -> TimedOutRuns:
    """Request the cancellation of every run past its deadline, with or without an enabled manifest."""
    return TimedOutRuns(await transaction.run(cancel_timed_out()))


async def reap_stale_pending_metadata(request: CycleRequest, transaction: Transaction) -> ReapedPending:
    """Fail runs that are pending for too long without a worker for them, but not behind busy workers."""
    stale_after = request.settings.stale_pending_after
    reaped = await reap(
        transaction, lambda after: find_stale_pending(stale_after, after=after), request.reap_rules
    )
    return ReapedPending(reaped.runs, reaped.manifest_ids, reaped.causes, reaped.parked)


async def reap_stale_in_progress_metadata(
    request: CycleRequest, transaction: Transaction
) -> ReapedInProgress:
    """Fail runs of dead workers: first by expired lease, then, as a fallback, by age.

    Expired leases count only if they can be trusted (see LeaseWatch); a worker that is marked stopped or
    lost, or has no row, is dead in any case.
    """
    silent = await transaction.run(find_silent_workers())
    is_believed = bool(silent) and request.trusts_leases
    if is_believed:
        await transaction.run(mark_lost(silent))
    rules, settings = request.reap_rules, request.settings
    lost = await reap(transaction, lambda after: find_abandoned(after=after), rules)
    overaged = await reap(
        transaction,
        lambda after: find_overaged(
            stale_after=settings.stale_in_progress_after, grace=settings.stale_grace, after=after
        ),
        rules,
    )
    lease_end = await transaction.run(next_lease_end())
    return ReapedInProgress(
        lost.runs + overaged.runs,
        lost.manifest_ids | overaged.manifest_ids,
        Counter(lost.causes) + Counter(overaged.causes),
        lost.parked + overaged.parked,
        0 if is_believed else len(silent),
        None if lease_end is None else timedelta(seconds=lease_end),
    )


async def reap_failed_jobs(  # noqa: PLR0917 - the cargo of a cycle, in its order
    request: CycleRequest,
    loaded: LoadedManifests,
    pending: ReapedPending,
    in_progress: ReapedInProgress,
    *,
    transaction: Transaction,
) -> FreshManifests:
    """Write the missing dead letters of manifests at their limit; the end of a run writes its own."""
    fresh = await transaction.run(load_views(pending.manifest_ids | in_progress.manifest_ids))
    unreadable = {**loaded.unreadable, **fresh.unreadable}
    due = DueManifests((*loaded.views, *fresh.views), unreadable)
    return await park_exhausted(transaction, due, request.retry)


async def park_exhausted(transaction: Transaction, due: DueManifests, retry: RetrySettings) -> FreshManifests:
    """Write the dead letters of manifests at their limit, and mark them; the later snapshot counts."""
    views = {view.id: view for view in due.views}
    exhausted = [view.id for view in views.values() if view.failed_count and is_exhausted_view(view)]
    policies = await transaction.run(read_policies(exhausted))
    spent = [each for each, policy in policies.items() if is_spent(policy.failures, policy, retry)]
    parked = await _park(transaction, spent)
    for letter in parked:
        if letter.manifest_id is not None:
            views[letter.manifest_id] = views[letter.manifest_id]._replace(is_dead_lettered_now=True)
    return FreshManifests(tuple(views.values()), due.unreadable, parked)


async def _park(transaction: Transaction, manifest_ids: Sequence[int]) -> tuple[ParkedJob, ...]:
    """Write the letters; log a refused letter, which the next cycle tries again."""
    if not manifest_ids:
        return ()

    async def write(part: Sequence[int]) -> tuple[ParkedJob, ...]:
        async with transaction.savepoint():
            return await transaction.run(park_manifests(part))

    result = await write_bisecting(manifest_ids, write, charges_all=True)
    for refused in result.refused:
        _log.error("the dead letter of manifest %s cannot be written: %s", refused.item, refused.error)
    return tuple(letter for part in result.written for letter in part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The result of a recovery: timed-out and recovered runs, and the state of the leases."""

    timed_out: tuple[int, ...]
    recovered: Mapping[RecoveryCause, int]
    parked: tuple[ParkedJob, ...]
    silent_workers: int
    next_lease_end: timedelta | None


async def recover_runs(database: Database, request: CycleRequest) -> Recovery | None:
    """End abandoned runs in one transaction; return None if another server holds the lock."""
    async with database.transaction() as transaction:
        if request.settings.advisory_lock and not await transaction.run(try_lock_recovery()):
            return None
        timed_out = await cancel_timed_out_jobs(transaction)
        pending = await reap_stale_pending_metadata(request, transaction)
        in_progress = await reap_stale_in_progress_metadata(request, transaction)
    return Recovery(
        timed_out=timed_out.run_ids,
        recovered=Counter(pending.causes) + Counter(in_progress.causes),
        parked=pending.parked + in_progress.parked,
        silent_workers=in_progress.silent_workers,
        next_lease_end=in_progress.next_lease_end,
    )
