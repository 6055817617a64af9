"""Runs whose worker is gone are failed, by its lease first and by their age as the net."""

from __future__ import annotations

from datetime import timedelta

from gandy.admin.manifest_manager.cycle import CycleRequest, ReapedInProgress
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.reaping import Reaped, find_silent_workers, next_lease_end, reap_lost, reap_overaged


async def reap_stale_in_progress_metadata(
    request: CycleRequest, transaction: Transaction
) -> ReapedInProgress:
    """Fail the runs of lost workers, if expired leases can be believed, and those that are far too old."""
    silent = await transaction.run(find_silent_workers())
    is_believed = bool(silent) and request.trusts_leases
    lost = await transaction.run(reap_lost(silent, request.reap_rules)) if is_believed else Reaped()
    settings = request.settings
    overaged = await transaction.run(
        reap_overaged(
            stale_after=settings.stale_in_progress_after, grace=settings.stale_grace, rules=request.reap_rules
        )
    )
    lease_end = await transaction.run(next_lease_end())
    return ReapedInProgress(
        lost.runs + overaged.runs,
        lost.manifest_ids | overaged.manifest_ids,
        0 if is_believed else len(silent),
        None if lease_end is None else timedelta(seconds=lease_end),
    )
