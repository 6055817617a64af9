"""The trains of upkeep: expired runs, resolved letters, and the partitions of history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from gandy.store.cleanup import page_capped, surplus_runs
from gandy.store.owners import recall, remember
from gandy.train.base import Train
from gandy.upkeep.declaration import (
    ByCount,
    PrunedBy,
    UpkeepRequest,
    upkeep_of,
)
from gandy.upkeep.partitions import (
    DroppedDays,
    MadeDays,
    OpenedPieces,
    drop_past_days,
    make_coming_days,
    open_pieces,
)
from gandy.upkeep.pruning import (
    Pruned,
    PruningShift,
    UpkeepResult,
    prune,
    prune_rows_of,
)
from gandy.upkeep.samples import sample_own


@dataclass(frozen=True, slots=True)
class PrunedRows:
    """Rows that were deleted by row."""

    result: UpkeepResult


_PLACE: Final = "table_maintenance.keep_last_place"
_PAGE: Final = 100
#: Pages of manifests that one cycle examines; the next cycle continues there.
_PAGES: Final = 10


async def cap_runs(  # noqa: PLR0917 - the cargo of a cycle, in its order
    made: MadeDays, opened: OpenedPieces, dropped: DroppedDays, pruned: PrunedRows, *, shift: PruningShift
) -> UpkeepResult:
    """Prune the next manifests with a cap, and return the result of the whole cycle."""
    is_requested = any(isinstance(upkeep.means, ByCount) for upkeep in upkeep_of(PrunedBy.TABLE_MAINTENANCE))
    surplus = await _cap(shift) if is_requested and not pruned.result.is_stopped else Pruned()
    result = pruned.result
    return replace(
        result,
        rows=dict(Counter(result.rows) + Counter(dropped.rows) + surplus.counts),
        days_made=made.days,
        pieces_opened=opened.pieces,
        days_dropped=dropped.leaves,
        set_aside=result.set_aside + surplus.set_aside,
        passed_over=result.passed_over + surplus.passed_over,
        is_stopped=result.is_stopped or surplus.is_stopped,
    )


async def _cap(shift: PruningShift) -> Pruned:
    total = Pruned()
    begun_at = place = await shift.database.read(recall(_PLACE)) or 0
    for _ in range(_PAGES):
        page = await shift.database.read(page_capped(place, _PAGE))
        if page.surplus:
            total.add(await prune(shift, surplus_runs(page)))
        place = page.last_id or 0
        if not place or total.is_stopped:
            break
    if place != begun_at:
        await shift.database.run(remember(_PLACE, place))
    return total


async def prune_rows(request: UpkeepRequest, _: DroppedDays, shift: PruningShift) -> PrunedRows:
    """Prune one table after the other, as declared."""
    return PrunedRows(await prune_rows_of(PrunedBy.TABLE_MAINTENANCE, request, shift))


async def sample_sizes(request: UpkeepRequest, result: UpkeepResult, *, shift: PruningShift) -> UpkeepResult:
    """Sample the sizes of Gandy's own tables, once an hour."""
    if not result.is_stopped:
        await shift.database.run(sample_own(request))
    return result


class TableMaintenanceTrain(Train[UpkeepRequest, UpkeepResult]):
    """Days first: rows of a dropped day need not be deleted by row."""

    route = (make_coming_days, open_pieces, drop_past_days, prune_rows, cap_runs, sample_sizes)


async def delete_expired_metadata(request: UpkeepRequest, shift: PruningShift) -> UpkeepResult:
    """Delete until no row matches: ids in order, then entries, lines, references and runs by id."""
    return await prune_rows_of(
        PrunedBy.METADATA_CLEANUP, request, shift, batch_size=request.cleanup.batch_size
    )


class MetadataCleanupTrain(Train[UpkeepRequest, UpkeepResult]):
    """One junction; it takes no lock, since a second process finds nothing left."""

    route = (delete_expired_metadata,)


async def delete_resolved_letters(request: UpkeepRequest, shift: PruningShift) -> UpkeepResult:
    """Delete resolved letters; never an unresolved letter, never while its requeued entry waits."""
    return await prune_rows_of(PrunedBy.DEAD_LETTER_CLEANUP, request, shift)


class DeadLetterCleanupTrain(Train[UpkeepRequest, UpkeepResult]):
    """One junction; it takes no lock, since a second process finds nothing left."""

    route = (delete_resolved_letters,)
