"""Sample the sizes of tables: of Gandy's own, and of the application's by its contracts."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gandy.errors import GandyError
from gandy.store.cleanup import ManifestWalk, RowWalk
from gandy.store.manifests import read_now
from gandy.store.stats.growth import TableSample, size_own_tables, take_sampling_turn, write_samples
from gandy.store.stats.rollups import EndedTallies
from gandy.upkeep.declaration import UPKEEP, ByRow

if TYPE_CHECKING:
    from gandy.lifecycle import Contract
    from gandy.store.cleanup import Found, Walk
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation
    from gandy.upkeep.declaration import Upkeep, UpkeepRequest

_log = logging.getLogger("gandy.lifecycle")
GANDY = "gandy"


def overdue(upkeep: Upkeep, request: UpkeepRequest, now: datetime) -> Operation[timedelta | None]:
    """Return how long the oldest expired row of a bound is overdue; None: there is none."""
    if not isinstance(upkeep.means, ByRow):
        return None
    walk = upkeep.means.dead(request, now)
    return _lag((yield from walk.find(None, 1)), _kept_until(walk, now))


def _lag(dead: Found, kept_until: datetime) -> timedelta | None:
    """Return how long the first expired row is overdue; a walk begins with the oldest row."""
    if dead.last is None or dead.last.at is None:
        return None
    return max(kept_until - dead.last.at, timedelta(0))


def _kept_until(walk: Walk, now: datetime) -> datetime:
    """Return the instant before which rows are expired."""
    match walk:
        case (
            RowWalk(given={"before": datetime() as before})
            | ManifestWalk(before=before)
            | EndedTallies(before=before)
        ):
            return before
        case _:
            return now


def sample_own(request: UpkeepRequest) -> Operation[None]:
    """Record the sizes of Gandy's own tables and the largest lag of each, once an hour over all servers."""
    if not (yield from take_sampling_turn(GANDY)):
        return
    now = yield from read_now()
    lags: dict[str, float] = {}
    for upkeep in UPKEEP:
        lag = yield from overdue(upkeep, request, now)
        if lag is not None:
            lags[upkeep.table] = max(lag.total_seconds(), lags.get(upkeep.table, 0.0))
    yield from write_samples(GANDY, (yield from size_own_tables(lags)))


async def sample_contract(database: Database, contract: Contract, owner: str) -> None:
    """Record the sizes of a contract's tables, once an hour; without an answer of their database, nothing."""
    from gandy.lifecycle.reports.sizes import sizes_of  # noqa: PLC0415 an extra

    if not await database.run(take_sampling_turn(contract.name, owner=owner)):
        return
    try:
        sizes = await asyncio.to_thread(sizes_of, contract)
    except GandyError as error:
        _log.warning("the tables of %s could not be measured: %s", contract.name, error)
        return
    samples = [TableSample(each.table, each.rows, each.bytes, each.lag_seconds) for each in sizes]
    await database.run(write_samples(contract.name, samples, owner=owner))
