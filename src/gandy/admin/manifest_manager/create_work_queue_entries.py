"""The decisions become rows: entries, verdicts and the manifests' next instants."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gandy.admin.manifest_manager.cycle import (
    CycleRequest,
    CycleResult,
    DeterminedJobs,
    FreshManifests,
    LoadedManifests,
    ReapedInProgress,
    ReapedPending,
    TimedOutRuns,
)
from gandy.admin.manifest_manager.decision_writing import write_decisions
from gandy.admin.manifest_manager.looking import Done, Looked, Looking, look_further, within_limit
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.manifests import keep_backlog, next_look

if TYPE_CHECKING:
    from gandy.admin.manifest_manager.decision_writing import Written


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
    """Write what was decided, and look further where that left room: the limit counts entries, not looks."""
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
        parked=tuple(done.parked),
        lateness=_lateness(done.written, loaded.now),
        silent_workers=in_progress.silent_workers,
        next_lease_end=in_progress.next_lease_end,
        next_look=None if seconds is None else timedelta(seconds=seconds),
    )


def _lateness(written: Written, now: datetime) -> timedelta:
    """Say how late the latest entry is, by its nominal instant."""
    instants = [
        decision.occurrence.due_at
        for view, decision in written.moved
        if decision.occurrence is not None and view.id in written.queued
    ]
    return max(now - min(instants, default=now), timedelta(0))
