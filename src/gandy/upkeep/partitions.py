"""Junctions of upkeep that create, open and drop the partitions of history."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.errors import DatabaseBusyError, DatabaseRefusedError, RowConflictError
from gandy.rules.ending import days_ahead
from gandy.rules.pieces import next_steps
from gandy.store.drivers.database import KeepsDays
from gandy.store.partitions import (
    add_day,
    close_past_days,
    count_rows,
    find_leaves,
    find_past_leaves,
    list_pieces,
    lock_history,
    read_horizon,
    take_step,
)
from gandy.upkeep.declaration import ByDay, PrunedBy, UpkeepRequest, upkeep_of
from gandy.upkeep.pruning import PATIENCE, PruningShift

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from gandy.rules.pieces import Piece, PieceStep
    from gandy.store.drivers.database import Commands
    from gandy.store.partitions import Leaf

_log = logging.getLogger("gandy.table_maintenance")


@dataclass(frozen=True, slots=True)
class MadeDays:
    """The number of days that got partitions."""

    days: int = 0


@dataclass(frozen=True, slots=True)
class OpenedPieces:
    """The number of pieces into which ended runs go from now on."""

    pieces: int = 0


@dataclass(frozen=True, slots=True)
class DroppedDays:
    """Dropped partitions, and the rows in them."""

    leaves: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)


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


async def open_pieces(request: UpkeepRequest, _: MadeDays, shift: PruningShift) -> OpenedPieces:
    """Create the next piece of a day whose current one is large, and open it one cycle later."""
    horizon = await shift.database.read(read_horizon())
    if horizon is None or not isinstance(shift.database, KeepsDays):
        return OpenedPieces()

    async def due() -> list[PieceStep]:
        pieces = await shift.database.read(list_pieces())
        return next_steps(pieces, request.retention.piece_bytes, horizon.today)

    if not await due():
        return OpenedPieces()
    async with shift.database.outside_transactions() as commands:
        if not await commands.run(lock_history(PATIENCE)):
            return OpenedPieces()
        return await _take(await due(), shift)  # another server may have done it before the lock


async def _take(steps: Sequence[PieceStep], shift: PruningShift) -> OpenedPieces:
    opened = 0
    for step in steps:
        if shift.is_stopping():
            break
        try:
            await shift.database.run(take_step(step, PATIENCE))
        except (DatabaseBusyError, DatabaseRefusedError, RowConflictError) as error:
            _log.warning("%s could not get piece %d now: %s", step.day, step.number, error)
            continue
        opened += step.is_created
    return OpenedPieces(opened)


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
        return await _drop_all(commands, await commands.run(find_past_leaves()), shift)


async def drop_piece(piece: Piece, shift: PruningShift) -> DroppedDays:
    """Drop a closed piece before its day is over, with its log lines; the current one of its day is left."""
    if piece.is_current or not isinstance(shift.database, KeepsDays):
        return DroppedDays()
    async with shift.database.outside_transactions() as commands:
        if not await commands.run(lock_history(PATIENCE)):
            return DroppedDays()
        return await _drop_all(commands, await commands.run(find_leaves(piece.leaves)), shift)


async def _drop_all(commands: Commands, found: Sequence[Leaf], shift: PruningShift) -> DroppedDays:
    leaves, rows = 0, Counter[str]()
    for leaf in found:
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


async def _drop(commands: Commands, leaf: Leaf) -> None:
    """Run the next command of the partition until it no longer exists."""
    remaining: tuple[Leaf, ...] = (leaf,)
    while remaining:
        await commands.execute(remaining[0].command)
        remaining = await commands.run(find_leaves([leaf.name]))
