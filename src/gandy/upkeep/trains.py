"""The trains of upkeep: expired runs, resolved letters, and daily partitions."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.errors import DatabaseBusyError, DatabaseRefusedError, RowConflictError
from gandy.rules.ending import days_ahead
from gandy.store.cleanup import page_capped, surplus_runs
from gandy.store.drivers.database import KeepsDays
from gandy.store.owners import recall, remember
from gandy.store.partitions import (
    add_day,
    close_past_days,
    count_rows,
    find_past_leaves,
    lock_history,
    read_horizon,
)
from gandy.train.base import Train
from gandy.upkeep.declaration import (
    ByCount,
    ByDay,
    PrunedBy,
    UpkeepRequest,
    upkeep_of,
)
from gandy.upkeep.pruning import (
    PATIENCE,
    Pruned,
    PruningShift,
    UpkeepResult,
    prune,
    prune_rows_of,
)
from gandy.upkeep.samples import sample_own

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from gandy.store.drivers.database import Commands
    from gandy.store.partitions import PastLeaf


@dataclass(frozen=True, slots=True)
class MadeDays:
    """The number of days that got partitions."""

    days: int = 0


@dataclass(frozen=True, slots=True)
class DroppedDays:
    """Dropped partitions, and the rows in them."""

    leaves: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrunedRows:
    """Rows that were deleted by row."""

    result: UpkeepResult


_PLACE: Final = "table_maintenance.keep_last_place"
_PAGE: Final = 100
#: Pages of manifests that one cycle examines; the next cycle continues there.
_PAGES: Final = 10


async def cap_runs(
    made: MadeDays, dropped: DroppedDays, pruned: PrunedRows, *, shift: PruningShift
) -> UpkeepResult:
    """Prune the next manifests with a cap, and return the result of the whole cycle."""
    is_requested = any(isinstance(upkeep.means, ByCount) for upkeep in upkeep_of(PrunedBy.TABLE_MAINTENANCE))
    surplus = await _cap(shift) if is_requested and not pruned.result.is_stopped else Pruned()
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


_log = logging.getLogger("gandy.table_maintenance")


async def drop_past_days(_: MadeDays, shift: PruningShift) -> DroppedDays:
    """Detach concurrently, then drop; also finish what an interrupted cycle began."""
    is_requested = any(isinstance(upkeep.means, ByDay) for upkeep in upkeep_of(PrunedBy.TABLE_MAINTENANCE))
    if not is_requested or not isinstance(shift.database, KeepsDays):
        return DroppedDays()
    if await shift.database.read(read_horizon()) is None or not await shift.database.read(find_past_leaves()):
        return DroppedDays()
    async with shift.database.outside_transactions() as commands:
        if not await commands.run(lock_history(PATIENCE)):
            return DroppedDays()
        await commands.run(close_past_days())
        return await _drop_all(commands, shift)


async def _drop_all(commands: Commands, shift: PruningShift) -> DroppedDays:
    leaves, rows = 0, Counter[str]()
    for leaf in await commands.run(find_past_leaves()):
        if shift.is_stopping():
            break
        held = await commands.run(count_rows(leaf))
        try:
            await _drop(commands, leaf)
        except (DatabaseBusyError, DatabaseRefusedError) as error:
            _log.warning("%s could not be dropped now: %s", leaf.name, error)
            continue
        leaves += 1
        rows[leaf.table] += held
    return DroppedDays(leaves, rows)


async def _drop(commands: Commands, leaf: PastLeaf) -> None:
    """Run the next command of the partition until it no longer exists."""
    remaining: tuple[PastLeaf, ...] = (leaf,)
    while remaining:
        await commands.execute(remaining[0].command)
        remaining = await commands.run(find_past_leaves(leaf.name))


async def make_coming_days(request: UpkeepRequest, shift: PruningShift) -> MadeDays:
    """Create days as far ahead as runs are kept; leave a day that fails to a later cycle."""
    retention = request.retention
    wanted = days_ahead((retention.completed, retention.failed, retention.cancelled))
    horizon = await shift.database.read(read_horizon())
    if horizon is None or not isinstance(shift.database, KeepsDays):
        return MadeDays()
    end = horizon.today + timedelta(days=wanted)
    if horizon.since == horizon.today and horizon.until >= end:
        return MadeDays()
    async with shift.database.outside_transactions() as commands:
        if not await commands.run(lock_history(PATIENCE)):
            return MadeDays()
        await commands.run(close_past_days())
        return await _make(shift, end - timedelta(days=wanted), end)


async def _make(shift: PruningShift, today: date, end: date) -> MadeDays:
    horizon = await shift.database.read(read_horizon())
    day = today if horizon is None else max(horizon.until, today)
    made = 0
    while day < end and not shift.is_stopping():
        try:
            await shift.database.run(add_day(day, PATIENCE))
        except (DatabaseBusyError, DatabaseRefusedError, RowConflictError) as error:
            _log.warning("the partitions of %s could not be created now: %s", day, error)
            break
        made, day = made + 1, day + timedelta(days=1)
    return MadeDays(made)


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

    route = (make_coming_days, drop_past_days, prune_rows, cap_runs, sample_sizes)


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
