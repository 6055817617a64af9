"""The partitions of the coming days are made before a run is sent there."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.admin.table_maintenance.cycle import MadeDays
from gandy.admin.upkeep.declaration import UpkeepRequest  # noqa: TC001 the engine reads it at run time
from gandy.admin.upkeep.pruning import PATIENCE, Shift
from gandy.errors import DatabaseBusyError, DatabaseRefusedError, RowConflictError
from gandy.rules.ending import days_ahead
from gandy.store.drivers.database import KeepsDays
from gandy.store.partitions import add_day, close_past_days, lock_history, read_horizon

if TYPE_CHECKING:
    from datetime import date

_log = logging.getLogger("gandy.table_maintenance")


async def make_coming_days(request: UpkeepRequest, shift: Shift) -> MadeDays:
    """Make days as far ahead as runs are kept; a day that cannot be made now is made by a later cycle."""
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


async def _make(shift: Shift, today: date, end: date) -> MadeDays:
    horizon = await shift.database.read(read_horizon())
    day = today if horizon is None else max(horizon.until, today)
    made = 0
    while day < end and not shift.is_stopping():
        try:
            await shift.database.run(add_day(day, PATIENCE))
        except (DatabaseBusyError, DatabaseRefusedError, RowConflictError) as error:
            _log.warning("the partitions of %s could not be made now: %s", day, error)
            break
        made, day = made + 1, day + timedelta(days=1)
    return MadeDays(made)
