"""Statistics of trains and manifests: runs, failure rate, waits and durations over a window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from gandy.desk.audit import Listed
from gandy.desk.choosing.names import find_unknown_train
from gandy.rules.tallies import NO_MANIFEST, Tally
from gandy.store.manifests import read_now
from gandy.store.owners import named_owners
from gandy.store.stats import rollups
from gandy.store.stats.rollups import StatsWindow, beginning, sums_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.model.owners import Owners
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.statements import Operation, Row, Rows
    from gandy.store.stats.rollups import Grain, ManifestOrder
    from gandy.train.registry import Registry

StatsSort: TypeAlias = Literal[
    "name",
    "runs",
    "failed",
    "failure_rate",
    "wait_p50",
    "wait_p95",
    "wait_p99",
    "duration_p50",
    "duration_p95",
    "duration_p99",
]
SORTS: Final[tuple[StatsSort, ...]] = get_args(StatsSort)

_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
#: The windows of an answer that names none.
USUAL_WINDOWS: Final = (_HOUR, _DAY, 7 * _DAY)
_LENGTHS: Final[Mapping[Grain, timedelta]] = {"minute": _MINUTE, "hour": _HOUR, "day": _DAY}
_COMPARED: Final = 200  # manifests of which the percentiles are computed, to sort by one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsSlot:
    """One minute, hour or day of a window."""

    at: datetime
    completed: int
    failed: int
    cancelled: int
    duration_p95: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStats:
    """The runs of a train or of one of its manifests that ended in a window.

    Percentiles are at most 4.5 % from the exact ones, or 1 ms if that is more. Cancelled runs have no part in
    them.
    """

    owner: str
    train: str
    manifest: str | None  #: None: all runs of the train
    window: timedelta
    since: datetime
    runs: int
    completed: int
    failed: int
    cancelled: int
    failure_rate: float | None  #: of the runs that were not cancelled
    wait_p50: timedelta | None
    wait_p95: timedelta | None
    wait_p99: timedelta | None
    duration_p50: timedelta | None
    duration_p95: timedelta | None
    duration_p99: timedelta | None
    longest_wait: timedelta | None
    longest_duration: timedelta | None
    slots: tuple[StatsSlot, ...]


@dataclass(frozen=True, slots=True)
class _Span:
    """A window as it is stored: the beginnings of its minutes, hours or days, the current one included."""

    length: timedelta
    grain: Grain
    slots: tuple[datetime, ...]

    def stored(self, owner: str, train: str | None) -> StatsWindow:
        """Return the rows to read."""
        return StatsWindow(owner=owner, grain=self.grain, since=self.slots[0], train=train)


class StatsDesk:
    """Reads statistics from rollups, at a cost that does not depend on the number of runs."""

    def __init__(self, database: ReadingRunner, owners: Owners, registry: Registry | None = None) -> None:
        """Take the owners whose figures are visible, and the trains whose names are known."""
        self._database = database
        self._owners = owners
        self._registry = registry

    async def trains(
        self,
        windows: Sequence[timedelta] = USUAL_WINDOWS,
        *,
        train: str | None = None,
        sort: StatsSort = "name",
    ) -> Listed[RunStats]:
        """Return the statistics of each train that ended runs, window by window."""
        found = await self._database.read(self._trains(windows, train))
        rows = [each for window in windows for each in _sorted(found[window], sort)]
        return await self._named(Listed.all_of(rows, is_cut=False), train)

    async def manifests(
        self, window: timedelta, *, train: str | None = None, sort: StatsSort = "runs", limit: int = 100
    ) -> Listed[RunStats]:
        """Return the statistics of the manifests that come first in an order, the largest first.

        To sort by a percentile, the manifests with the longest single wait or duration are compared. The
        result is cut if there are too many figures to rank by all: then the newest ones decide.
        """
        found = await self._database.read(self._manifests(window, train, sort=sort, limit=limit))
        return await self._named(found, train)

    async def _named(self, found: Listed[RunStats], train: str | None) -> Listed[RunStats]:
        """Say of an empty list if nothing has the name of the train."""
        if train is not None and not found:
            search = find_unknown_train(train, self._owners, self._registry)
            found.unknown = await self._database.read(search)
        return found

    def _trains(
        self, windows: Iterable[timedelta], train: str | None
    ) -> Operation[dict[timedelta, list[RunStats]]]:
        now = yield from read_now()
        found: dict[timedelta, list[RunStats]] = {}
        for window in windows:
            span = _span(window, now)
            stats = found[window] = []
            for owner in (yield from named_owners(self._owners)):
                rows = yield from rollups.list_train_rollups(span.stored(owner, train))
                stats += _stats(owner, span, rows)
        return found

    def _manifests(
        self, window: timedelta, train: str | None, *, sort: StatsSort, limit: int
    ) -> Operation[Listed[RunStats]]:
        span = _span(window, (yield from read_now()))
        order = _order(sort)
        found: list[RunStats] = []
        is_cut = False
        for owner in (yield from named_owners(self._owners)):
            ranked = limit if order not in {"wait", "duration"} else max(limit, _COMPARED)
            listed = yield from rollups.list_manifest_rollups(span.stored(owner, train), order, ranked)
            found += _stats(owner, span, listed.rows)
            is_cut = is_cut or listed.is_cut
        return Listed.all_of(_sorted(found, sort)[:limit], is_cut=is_cut)


def _manifest(row: Row) -> str | None:
    """Return the manifest's external id; None: the row is of the train as a whole."""
    if row.manifest_id == NO_MANIFEST:
        return None
    return row.manifest or f"deleted, {row.manifest_id}"


def _order(sort: StatsSort) -> ManifestOrder:
    match sort:
        case "failed" | "failure_rate":
            return sort
        case "wait_p50" | "wait_p95" | "wait_p99":
            return "wait"
        case "duration_p50" | "duration_p95" | "duration_p99":
            return "duration"
        case "name" | "runs":
            return "runs"


def _span(length: timedelta, now: datetime) -> _Span:
    grain: Grain = "minute" if length <= 2 * _HOUR else "hour" if length <= 2 * _DAY else "day"
    unit = _LENGTHS[grain]
    last = beginning(grain, now)
    count = max(-(-length // unit), 1)
    return _Span(length, grain, tuple(last - index * unit for index in reversed(range(count))))


class StatsName(NamedTuple):
    """What statistics are of."""

    owner: str
    train: str
    manifest: str | None


def _stats(owner: str, span: _Span, rows: Rows) -> list[RunStats]:
    by_name: dict[StatsName, dict[datetime, Tally]] = {}
    for row in rows:
        name = StatsName(owner, row.train, _manifest(row))
        by_name.setdefault(name, {}).setdefault(row.at, Tally()).add(sums_in(row))
    empty = {at: _slot(at, Tally()) for at in span.slots}  # most slots of most manifests
    return [_of_one(name, span, tallies, empty=empty) for name, tallies in by_name.items()]


def _of_one(
    name: StatsName, span: _Span, tallies: Mapping[datetime, Tally], *, empty: Mapping[datetime, StatsSlot]
) -> RunStats:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    ended = total.completed + total.failed
    wait, duration = total.waits.percentile, total.durations.percentile
    return RunStats(
        **name._asdict(),
        window=span.length,
        since=span.slots[0],
        runs=ended + total.cancelled,
        completed=total.completed,
        failed=total.failed,
        cancelled=total.cancelled,
        failure_rate=total.failed / ended if ended else None,
        wait_p50=wait(0.5),
        wait_p95=wait(0.95),
        wait_p99=wait(0.99),
        duration_p50=duration(0.5),
        duration_p95=duration(0.95),
        duration_p99=duration(0.99),
        longest_wait=timedelta(seconds=total.longest_wait) if ended else None,
        longest_duration=timedelta(seconds=total.longest) if ended else None,
        slots=tuple(_slot(at, tallies[at]) if at in tallies else empty[at] for at in span.slots),
    )


def _slot(at: datetime, tally: Tally) -> StatsSlot:
    return StatsSlot(
        at=at,
        completed=tally.completed,
        failed=tally.failed,
        cancelled=tally.cancelled,
        duration_p95=tally.durations.percentile(0.95),
    )


def _sorted(stats: Sequence[RunStats], sort: StatsSort) -> list[RunStats]:
    """Sort by name, or by a figure from the largest to the smallest; rows without it come last."""
    by_name = sorted(stats, key=lambda each: (each.train, each.manifest or "", each.owner))
    if sort == "name":
        return by_name
    known = [each for each in by_name if getattr(each, sort) is not None]
    unknown = [each for each in by_name if getattr(each, sort) is None]
    return sorted(known, key=lambda each: getattr(each, sort), reverse=True) + unknown
