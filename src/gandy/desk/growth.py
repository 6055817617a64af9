"""The growth of tables: samples of their sizes, the lag of their pruning, and a straight line as forecast."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from gandy.store.manifests import read_now
from gandy.store.owners import named_owners
from gandy.store.stats.growth import list_samples

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from gandy.model.owners import Owners
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.statements import Operation, Row

T = TypeVar("T")

_DAY: Final = timedelta(days=1)
#: The samples of this span make the forecast.
FORECAST_FROM: Final = timedelta(days=7)
FORECAST_FOR: Final = timedelta(days=30)
_LEAST_SAMPLES: Final = 3
#: A page reads the growth again after this time: samples are taken once an hour.
GROWTH_AGE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSample:
    """The size of a table at an instant; rows are an estimate."""

    at: datetime
    rows: int | None
    bytes: int | None
    lag: timedelta | None  #: how long the oldest expired row was overdue


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGrowth:
    """The size of a table over time, and a straight line through the samples of the last week as forecast."""

    scheduler: str  #: gandy, or the contract
    table: str
    rows: int | None
    bytes: int | None
    lag: timedelta | None
    rows_per_day: float | None  #: None: there are fewer than three samples
    bytes_per_day: float | None
    rows_in_30_days: int | None
    bytes_in_30_days: int | None
    since: datetime
    sampled_at: datetime
    samples: tuple[SizeSample, ...]


async def read_growth(
    database: ReadingRunner, owners: Owners, *, since: timedelta = FORECAST_FROM
) -> tuple[TableGrowth, ...]:
    """Read the growth of Gandy's own tables, and of the tables of contracts; largest first.

    Beyond a week, only the first sample of each day is read.
    """
    found = await database.read(_read(owners, since))
    return tuple(
        sorted(found, key=lambda each: (-(each.bytes or each.rows or 0), each.scheduler, each.table))
    )


class Cached(Generic[T]):
    """A value for a page that is read again and again; it is read from the database if it is too old."""

    def __init__(self, age: timedelta, now: Callable[[], float] = time.monotonic) -> None:
        """Take the age from which on a value is read again."""
        self._age = age.total_seconds()
        self._now = now
        self._kept: tuple[float, T] | None = None

    async def get(self, read: Callable[[], Awaitable[T]]) -> T:
        """Return the value, at most as old as that."""
        kept = self._kept
        if kept is None or self._now() - kept[0] > self._age:
            kept = self._kept = (self._now(), await read())
        return kept[1]


def _read(owners: Owners, since: timedelta) -> Operation[list[TableGrowth]]:
    now = yield from read_now()
    found: dict[tuple[str, str, str], dict[datetime, Row]] = {}  # the shared tables come with each owner
    for owner in (yield from named_owners(owners)):
        for row in (yield from list_samples(owner, now - since, is_daily=since > FORECAST_FROM)):
            found.setdefault((row.owner, row.scheduler, row.table), {})[row.at] = row
    return [_growth(scheduler, table, [*rows.values()]) for (_, scheduler, table), rows in found.items()]


def _growth(scheduler: str, table: str, rows: Sequence[Row]) -> TableGrowth:
    samples = tuple(map(_sample, rows))
    last = samples[-1]
    recent = [each for each in samples if each.at >= last.at - FORECAST_FROM]
    rows_per_day = slope((each.at, each.rows) for each in recent)
    bytes_per_day = slope((each.at, each.bytes) for each in recent)
    return TableGrowth(
        scheduler=scheduler,
        table=table,
        rows=last.rows,
        bytes=last.bytes,
        lag=last.lag,
        rows_per_day=rows_per_day,
        bytes_per_day=bytes_per_day,
        rows_in_30_days=_later(last.rows, rows_per_day),
        bytes_in_30_days=_later(last.bytes, bytes_per_day),
        since=samples[0].at,
        sampled_at=last.at,
        samples=samples,
    )


def _sample(row: Row) -> SizeSample:
    lag = None if row.lag_seconds is None else timedelta(seconds=row.lag_seconds)
    return SizeSample(at=row.at, rows=row.rows, bytes=row.bytes, lag=lag)


def slope(points: Iterable[tuple[datetime, float | None]]) -> float | None:
    """Return the growth per day by least squares; None: there are too few values to say."""
    known = [(at.timestamp() / _DAY.total_seconds(), value) for at, value in points if value is not None]
    if len(known) < _LEAST_SAMPLES:
        return None
    middle_x = sum(x for x, _ in known) / len(known)
    middle_y = sum(y for _, y in known) / len(known)
    spread = sum((x - middle_x) ** 2 for x, _ in known)
    return sum((x - middle_x) * (y - middle_y) for x, y in known) / spread if spread else None


def _later(value: int | None, per_day: float | None) -> int | None:
    if value is None or per_day is None:
        return None
    return max(round(value + per_day * (FORECAST_FOR / _DAY)), 0)
