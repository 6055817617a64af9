"""The instants of a schedule, as timetable and as series, and their jitter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol, assert_never

from gandy.model.schedule import Cron, Interval, Recurring
from gandy.rules import cron
from gandy.rules.exclusions import is_excluded, stretch_start
from gandy.rules.zones import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from gandy.model.exclusion import Exclusion


class Timetable(Protocol):
    """Queries about instants; each is answered by arithmetic, however long the span."""

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first instant after this one; None if there is none."""

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """Find the last instant of a span, both ends included."""

    def count_between(self, since: datetime, until: datetime) -> int:
        """Count the instants of a span, both ends included."""


@dataclass(frozen=True, slots=True)
class CronTimetable:
    """The instants of a cron expression in its zone."""

    schedule: Cron

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first occurrence after this instant."""
        return cron.next_after(self.schedule.expression, self.schedule.timezone, instant)

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """Find the last occurrence of a span."""
        return cron.last_between(self.schedule.expression, self.schedule.timezone, since=since, until=until)

    def count_between(self, since: datetime, until: datetime) -> int:
        """Count the occurrences of a span."""
        return cron.count_between(self.schedule.expression, self.schedule.timezone, since=since, until=until)


@dataclass(frozen=True, slots=True)
class WithInstant:
    """A timetable with one more instant, set by an operator, that is not in the schedule."""

    timetable: Timetable
    set_to: datetime

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first instant after this one."""
        found = self.timetable.next_after(instant)
        if self.set_to <= instant:
            return found
        return self.set_to if found is None else min(found, self.set_to)

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """Find the last instant of a span."""
        found = self.timetable.last_between(since, until)
        if not since <= self.set_to <= until:
            return found
        return self.set_to if found is None else max(found, self.set_to)

    def count_between(self, since: datetime, until: datetime) -> int:
        """Count the instants of a span; the set instant is counted once."""
        count = self.timetable.count_between(since, until)
        is_known = self.timetable.last_between(self.set_to, self.set_to) is not None
        return count + (since <= self.set_to <= until and not is_known)


@dataclass(frozen=True, slots=True)
class IntervalTimetable:
    """The anchor plus every multiple of the interval; no instant before the anchor."""

    every: timedelta
    anchor: datetime

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first multiple after this instant."""
        try:
            return self.anchor + max((instant - self.anchor) // self.every + 1, 0) * self.every
        except OverflowError:
            return None

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """Find the last multiple of a span."""
        last = self.anchor + (until - self.anchor) // self.every * self.every
        return last if last >= max(since, self.anchor) else None

    def count_between(self, since: datetime, until: datetime) -> int:
        """Count the multiples of a span."""
        before = -((self.anchor - max(since, self.anchor)) // self.every)
        return max((until - self.anchor) // self.every + 1 - before, 0)


def timetable_of(schedule: Recurring, cursor: datetime) -> Timetable:
    """Return the timetable of a schedule; the cursor is one of its instants, and anchors an interval."""
    match schedule:
        case Cron():
            return CronTimetable(schedule)
        case Interval():
            return IntervalTimetable(schedule.every, cursor)
        case _:
            assert_never(schedule)


_MOMENT: Final = timedelta(microseconds=1)
#: After a long downtime, instants older than this many series become a single misfired row.
_MOST_SERIES: Final = 64
_LONGEST_LOOK_BACK: Final = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class InstantPlan:
    """The instants of a manifest and its exclusions."""

    timetable: Timetable
    exclusions: tuple[Exclusion, ...]
    timezone: str


@dataclass(frozen=True, slots=True)
class Series:
    """Consecutive instants of one timetable."""

    first: datetime
    last: datetime
    count: int
    is_excluded: bool = False
    is_too_old: bool = False  #: too old to distinguish excluded from missed


def series_between(plan: InstantPlan, since: datetime, until: datetime) -> list[Series]:
    """Return the series of a span, both ends included, oldest first, without visiting each instant."""
    if not plan.exclusions:
        whole = _series(plan, since, until)
        return [] if whole is None else [whole]
    series = list(_series_back(plan, since, until))
    series.reverse()
    return series


def without_first(plan: InstantPlan, series: Series) -> Series | None:
    """Return the rest of a series after its first instant."""
    return None if series.count == 1 else _series(plan, series.first + _MOMENT, series.last)


def split_before_last(plan: InstantPlan, series: Series, keep: int) -> tuple[Series | None, Series | None]:
    """Split a series so that the later part has `keep` instants, or all if there are fewer."""
    if keep >= series.count:
        return None, series
    cut = series.last + _MOMENT
    for _ in range(keep):
        cut = plan.timetable.last_between(series.first, cut - _MOMENT) or series.first
    return _series(plan, series.first, cut - _MOMENT), _series(plan, cut, series.last)


def _series_back(plan: InstantPlan, since: datetime, until: datetime) -> Iterator[Series]:
    exact = max(since, until - _LONGEST_LOOK_BACK)
    for _ in range(_MOST_SERIES):
        last = plan.timetable.last_between(exact, until)
        if last is None:
            break
        start = stretch_start(plan.exclusions, last, plan.timezone, floor=exact)
        series = _series(plan, start, last, is_excluded=is_excluded(plan.exclusions, last, plan.timezone))
        if series is not None:
            yield series
        until = start - _MOMENT
    older = _series(plan, since, until, is_too_old=True)
    if older is not None:
        yield older


def _series(
    plan: InstantPlan,
    since: datetime,
    until: datetime,
    *,
    is_excluded: bool = False,
    is_too_old: bool = False,
) -> Series | None:
    if until < since:
        return None
    last = plan.timetable.last_between(since, until)
    first = plan.timetable.next_after(since - _MOMENT)
    if first is None or last is None:
        return None
    count = 1 if first == last else plan.timetable.count_between(first, last)
    return Series(first, last, count, is_excluded, is_too_old)


_NONE: Final = timedelta(0)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def scheduled_at(
    external_id: str, due_at: datetime, variance: timedelta, *, next_due_at: datetime | None
) -> datetime:
    """Add jitter of 0 to `variance` to an instant, always less than the gap to the next one."""
    if variance <= _NONE:
        return due_at
    if next_due_at is not None:
        variance = min(variance, next_due_at - due_at - _MOMENT)
    variance = min(variance, _LAST - due_at)
    seed = f"{external_id}\n{(due_at - EPOCH) // _MOMENT}".encode()
    drawn = int.from_bytes(blake2b(seed, digest_size=8).digest())
    return due_at + drawn % (variance // _MOMENT + 1) * _MOMENT
