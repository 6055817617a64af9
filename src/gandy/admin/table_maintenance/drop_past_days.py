"""The partitions of days that are over are dropped."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from gandy.admin.table_maintenance.cycle import DroppedDays, MadeDays
from gandy.admin.upkeep.declaration import ByDay, PrunedBy, upkeep_of
from gandy.admin.upkeep.pruning import PATIENCE, Shift
from gandy.errors import DatabaseBusyError, DatabaseRefusedError
from gandy.store.drivers.database import KeepsDays
from gandy.store.partitions import (
    close_past_days,
    count_rows,
    find_past_leaves,
    find_unfinished_run,
    lock_history,
    read_horizon,
)

if TYPE_CHECKING:
    from gandy.store.drivers.database import Commands
    from gandy.store.partitions import PastLeaf

_log = logging.getLogger("gandy.table_maintenance")


async def drop_past_days(_: MadeDays, shift: Shift) -> DroppedDays:
    """Detach without holding up anybody, then drop; what was cut short before is brought to its end."""
    is_asked_for = any(isinstance(upkeep.means, ByDay) for upkeep in upkeep_of(PrunedBy.TABLE_MAINTENANCE))
    if not is_asked_for or not isinstance(shift.database, KeepsDays):
        return DroppedDays()
    if await shift.database.read(read_horizon()) is None or not await shift.database.read(find_past_leaves()):
        return DroppedDays()
    async with shift.database.outside_transactions() as commands:
        if not await commands.run(lock_history(PATIENCE)):
            return DroppedDays()
        await commands.run(close_past_days())
        return await _drop_all(commands, shift)


async def _drop_all(commands: Commands, shift: Shift) -> DroppedDays:
    leaves, rows = 0, Counter[str]()
    for leaf in await commands.run(find_past_leaves()):
        if shift.is_stopping():
            break
        unfinished = await commands.run(find_unfinished_run(leaf.day))
        if unfinished is not None:
            _log.error("%s is kept: run %s in it is not over", leaf.name, unfinished)
            continue
        held = await commands.run(count_rows(leaf))
        try:
            await _drop(commands, leaf)
        except (DatabaseBusyError, DatabaseRefusedError) as error:
            _log.warning("%s could not be dropped now: %s", leaf.name, error)
            continue
        leaves += 1
        rows[leaf.parent] += held
    return DroppedDays(leaves, rows)


async def _drop(commands: Commands, leaf: PastLeaf) -> None:
    """Run the command that the partition needs next, until it is gone."""
    remaining: tuple[PastLeaf, ...] = (leaf,)
    while remaining:
        await commands.execute(remaining[0].command)
        remaining = await commands.run(find_past_leaves(leaf.name))
