"""Runs whose worker is gone, or that have gone on for far too long, are failed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from gandy.admin.manifest_manager.cycle import CycleRequest, ReapedInProgress
from gandy.admin.manifest_manager.reaping import reap
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.reaping import (
    find_abandoned,
    find_overaged,
    find_silent_workers,
    mark_lost,
    next_lease_end,
)


async def reap_stale_in_progress_metadata(
    request: CycleRequest, transaction: Transaction
) -> ReapedInProgress:
    """Fail the runs of workers that are gone, and those that are far too old.

    An expired lease makes its worker lost once leases can be believed; a row that says stopped or lost, and
    a row that is not there, need no belief.
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
        0 if is_believed else len(silent),
        None if lease_end is None else timedelta(seconds=lease_end),
    )
