"""Letters that were resolved long ago are deleted."""

from __future__ import annotations

from gandy.admin.upkeep.cycle import UpkeepResult, prune_rows_of
from gandy.admin.upkeep.declaration import PrunedBy, UpkeepRequest
from gandy.admin.upkeep.pruning import Shift  # noqa: TC001 the engine reads it at run time


async def delete_resolved_letters(request: UpkeepRequest, shift: Shift) -> UpkeepResult:
    """Delete them; never one that awaits a person, never while its requeued entry waits."""
    return await prune_rows_of(PrunedBy.DEAD_LETTER_CLEANUP, request, shift)
