"""Runs that nobody will ever start are failed."""

from __future__ import annotations

from gandy.admin.manifest_manager.cycle import CycleRequest, ReapedPending
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.reaping import reap_stale_pending


async def reap_stale_pending_metadata(request: CycleRequest, transaction: Transaction) -> ReapedPending:
    """Fail what has been pending for too long with no worker to take it; waiting behind busy ones is fine."""
    operation = reap_stale_pending(request.settings.stale_pending_after, request.reap_rules)
    reaped = await transaction.run(operation)
    return ReapedPending(reaped.runs, reaped.manifest_ids)
