"""Manifests that keep only so many runs lose the older ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from gandy.admin.table_maintenance.cycle import (  # noqa: TC001 the engine reads them at run time
    DroppedDays,
    MadeDays,
    PrunedRows,
)
from gandy.admin.upkeep.cycle import UpkeepResult  # noqa: TC001 the engine reads it at run time
from gandy.admin.upkeep.declaration import ByCount, PrunedBy, upkeep_of
from gandy.admin.upkeep.pruning import Pruned, Shift, prune
from gandy.store.cleanup import page_capped, surplus_runs
from gandy.store.owners import recall, remember

_PLACE: Final = "table_maintenance.keep_last_place"
_PAGE: Final = 100
#: One cycle looks at so many manifests; the next goes on where it ended.
_PAGES: Final = 10


async def cap_runs(made: MadeDays, dropped: DroppedDays, pruned: PrunedRows, *, shift: Shift) -> UpkeepResult:
    """See to the next manifests with a cap, and say what the whole cycle did."""
    is_asked_for = any(isinstance(upkeep.means, ByCount) for upkeep in upkeep_of(PrunedBy.TABLE_MAINTENANCE))
    surplus = await _cap(shift) if is_asked_for and not pruned.result.is_stopped else Pruned()
    result = pruned.result
    return replace(
        result,
        rows=dict(Counter(result.rows) + Counter(dropped.rows) + surplus.counts),
        days_made=made.days,
        days_dropped=dropped.leaves,
        set_aside=result.set_aside + surplus.set_aside,
        passed_over=result.passed_over + surplus.passed_over,
        is_stopped=result.is_stopped or surplus.is_stopped,
    )


async def _cap(shift: Shift) -> Pruned:
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
