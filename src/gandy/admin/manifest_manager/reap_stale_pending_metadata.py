"""Runs that no worker will ever start are failed."""

from __future__ import annotations

from gandy.admin.manifest_manager.cycle import CycleRequest, ReapedPending
from gandy.admin.manifest_manager.reaping import reap
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.reaping import find_stale_pending


async def reap_stale_pending_metadata(request: CycleRequest, transaction: Transaction) -> ReapedPending:
    """Fail what has been pending for too long with no worker to take it; waiting behind busy ones is fine."""
    stale_after = request.settings.stale_pending_after
    reaped = await reap(
        transaction, lambda after: find_stale_pending(stale_after, after=after), request.reap_rules
    )
    return ReapedPending(reaped.runs, reaped.manifest_ids, reaped.causes)
