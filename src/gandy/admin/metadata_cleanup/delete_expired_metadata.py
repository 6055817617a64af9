"""Finished runs of the whitelist that are older than their retention are deleted."""

from __future__ import annotations

from gandy.admin.upkeep.cycle import UpkeepResult, prune_rows_of
from gandy.admin.upkeep.declaration import PrunedBy, UpkeepRequest
from gandy.admin.upkeep.pruning import Shift  # noqa: TC001 the engine reads it at run time


async def delete_expired_metadata(request: UpkeepRequest, shift: Shift) -> UpkeepResult:
    """Delete until no row matches: ids in order, then entries, lines, references and runs by id."""
    return await prune_rows_of(
        PrunedBy.METADATA_CLEANUP, request, shift, batch_size=request.cleanup.batch_size
    )
