"""Everything that is pruned by row."""

from __future__ import annotations

from gandy.admin.table_maintenance.cycle import DroppedDays, PrunedRows
from gandy.admin.upkeep.cycle import prune_rows_of
from gandy.admin.upkeep.declaration import PrunedBy, UpkeepRequest
from gandy.admin.upkeep.pruning import Shift  # noqa: TC001 the engine reads it at run time


async def prune_rows(request: UpkeepRequest, _: DroppedDays, shift: Shift) -> PrunedRows:
    """Walk one table after the other, as declared."""
    return PrunedRows(await prune_rows_of(PrunedBy.TABLE_MAINTENANCE, request, shift))
