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
from gandy.rules.fairness import Wanted, pick
from gandy.store.backlog import keep_backlog
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.manifests import next_look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.admin.manifest_manager.decision_writing import Decided, Written


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
    """Write what was decided, at most so many entries; a bad manifest has its own error, the others go on."""
    chosen = _within_limit(determined.decided, request.settings.max_entries_per_cycle)
    written = await write_decisions(transaction, chosen, charges_all=request.charges_all)
    left_over = loaded.left_over + len(determined.decided) - len(chosen)
    backlog = keep_backlog(loaded.now, since=loaded.backlog_since, is_behind=left_over > 0)
    await transaction.run(backlog)
    seconds = await transaction.run(next_look())
    return CycleResult(
        looked_at=len(fresh.views),
        queued=len(written.queued),
        skipped=written.skipped,
        contended=len({view.id for view, _ in chosen} - written.settled),
        errors=len(written.errors),
        left_over=left_over,
        timed_out=timed_out.run_ids,
        reaped=pending.runs + in_progress.runs,
        recovered={**pending.causes, **in_progress.causes},
        parked=fresh.parked,
        lateness=_lateness(written, loaded.now),
        silent_workers=in_progress.silent_workers,
        next_lease_end=in_progress.next_lease_end,
        next_look=None if seconds is None else timedelta(seconds=seconds),
    )


def _within_limit(decided: Sequence[Decided], limit: int | None) -> Sequence[Decided]:
    """Keep every decision without an entry, and of the others as many as a cycle may queue."""
    if limit is None or len(decided) <= limit:
        return decided
    wanted = [
        Wanted(view.id, view.group_id, view.group_priority, entry.priority, entry.due_at)
        for view, decision in decided
        if (entry := decision.occurrence) is not None
    ]
    if len(wanted) <= limit:
        return decided
    picked = {entry.manifest_id for entry in pick(limit, wanted)}
    return [pair for pair in decided if pair[1].occurrence is None or pair[0].id in picked]


def _lateness(written: Written, now: datetime) -> timedelta:
    """Say how late the latest entry is, by its nominal instant."""
    instants = [
        decision.occurrence.due_at
        for view, decision in written.moved
        if decision.occurrence is not None and view.id in written.queued
    ]
    return max(now - min(instants, default=now), timedelta(0))
