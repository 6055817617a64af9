"""Gandy's own tables: their bounds, their sizes, and the lag of their pruning."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.desk.explain import Count
from gandy.store.manifests import read_now
from gandy.store.reading import tables
from gandy.upkeep.declaration import UPKEEP, PrunedBy, UpkeepRequest, own_matrix
from gandy.upkeep.samples import overdue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.desk.growth import Cached
    from gandy.settings import Settings
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.statements import Operation, Row, Rows

_DELETED = "deleted_"
_HOUR = timedelta(hours=1)
_SHORTEST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBound:
    """One bound of a table, the service that enforces it, and the lag of the oldest expired row."""

    bound: str
    pruned_by: str
    safety: str
    lag: timedelta | None  #: None if rows are not deleted singly, or none is overdue


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTable:
    """One of Gandy's tables."""

    name: str
    rows: Count | None
    is_estimate: bool  #: the number of rows is the database's estimate
    bytes: int | None
    oldest_at: datetime | None
    arriving_per_hour: int | None  #: from the newest rows; None if rows have no timestamp
    pruned_last_hour: int
    bounds: tuple[TableBound, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTables:
    """All of Gandy's tables, and the last error of their pruning."""

    now: datetime
    tables: tuple[OwnTable, ...]
    last_error: str | None
    last_error_at: datetime | None


@dataclass(frozen=True, slots=True)
class TableSizes:
    """What is counted and measured of each table, by its name; nearly all that the page of tables costs."""

    counted: Mapping[str, int]
    measured: Mapping[str, Row]
    oldest: Mapping[str, datetime]
    arrivals: Mapping[str, int]


#: A page counts and measures again after this time.
SIZES_AGE: Final = timedelta(seconds=30)


async def survey_tables(
    database: ReadingRunner, owner: str, settings: Settings, *, sizes: Cached[TableSizes] | None = None
) -> OwnTables:
    """Read the state of every table of Gandy; with a cache, their sizes may be older than the rest."""
    found = None if sizes is None else await sizes.get(lambda: database.read(_sizes()))
    return await database.read(_survey(owner, settings, found))


def _sizes() -> Operation[TableSizes]:
    now = yield from read_now()
    return TableSizes(
        counted={row.name: row.rows for row in (yield from tables.count_rows())},
        measured={row.name: row for row in (yield from tables.measure())},
        oldest={row.name: row.at for row in (yield from tables.find_oldest())},
        arrivals={row.name: _arriving(row, now) for row in (yield from tables.sample_arrivals())},
    )


def _survey(owner: str, settings: Settings, sizes: TableSizes | None) -> Operation[OwnTables]:
    now = yield from read_now()
    sizes = sizes or (yield from _sizes())
    counted, measured = sizes.counted, sizes.measured
    cycles = yield from tables.list_upkeep(owner, list(PrunedBy))
    bounds = yield from _bounds(owner, settings, now)
    pruned = _pruned(cycles)
    failed = next((row for row in cycles if row.state == "failed"), None)
    return OwnTables(
        now=now,
        tables=tuple(
            OwnTable(
                name=name,
                rows=_rows(counted.get(name), measured.get(name)),
                is_estimate=_is_estimate(counted.get(name), measured.get(name)),
                bytes=measured[name].bytes if name in measured else None,
                oldest_at=sizes.oldest.get(name),
                arriving_per_hour=sizes.arrivals.get(name),
                pruned_last_hour=pruned[name],
                bounds=found,
            )
            for name, found in bounds.items()
        ),
        last_error=None if failed is None else f"{failed.train}: {failed.failure_reason}",
        last_error_at=None if failed is None else failed.end_time,
    )


def _bounds(owner: str, settings: Settings, now: datetime) -> Operation[dict[str, tuple[TableBound, ...]]]:
    request = UpkeepRequest(owner=owner, retention=settings.retention, cleanup=settings.cleanup)
    found: dict[str, tuple[TableBound, ...]] = {}
    for upkeep, row in zip(UPKEEP, own_matrix(settings), strict=True):
        lag = yield from overdue(upkeep, request, now)
        bound = TableBound(bound=row.bounded_by, pruned_by=row.prune_path, safety=row.safety, lag=lag)
        found[upkeep.table] = (*found.get(upkeep.table, ()), bound)
    return found


def _rows(counted: int | None, measured: Row | None) -> Count | None:
    if counted is None:
        return None
    if counted < tables.COUNTED:
        return Count(value=counted)
    return Count(value=max(counted, measured.rows)) if measured else Count(value=counted, is_at_least=True)


def _is_estimate(counted: int | None, measured: Row | None) -> bool:
    return counted is not None and counted >= tables.COUNTED and measured is not None


def _arriving(newest: Row, now: datetime) -> int:
    """Count the rows of the last hour; if the sample is too small, extrapolate from its age."""
    if newest.fresh < tables.SAMPLED:
        return int(newest.fresh)
    oldest_at: datetime = newest.oldest_at
    return round(int(newest.fresh) * (_HOUR / max(now - oldest_at, _SHORTEST)))


def _pruned(cycles: Rows) -> Counter[str]:
    total: Counter[str] = Counter()
    for cycle in cycles:
        counts = json.loads(cycle.output) if cycle.output else {}
        for word, count in counts.items():
            if word.startswith(_DELETED):
                total[word.removeprefix(_DELETED)] += count
    return total
