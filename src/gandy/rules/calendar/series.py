"""Due instants gathered into series: consecutive ones that are all excluded, or all not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.rules.calendar.exclusions import is_excluded, stretch_start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import Final

    from gandy.model.exclusion import Exclusion
    from gandy.rules.calendar.timetable import Timetable

_MOMENT: Final = timedelta(microseconds=1)
#: Beyond these a long downtime is not told apart any more: what is older becomes one misfired row.
_MOST_SERIES: Final = 64
_LONGEST_LOOK_BACK: Final = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class Plan:
    """The instants of a manifest and what it leaves out of them."""

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
    is_too_old: bool = False  #: older than is worth telling excluded from missed


def series_between(plan: Plan, since: datetime, until: datetime) -> list[Series]:
    """Gather the instants of a span, both ends included, oldest first; by jumps, not by steps."""
    if not plan.exclusions:
        whole = _series(plan, since, until)
        return [] if whole is None else [whole]
    series = list(_series_back(plan, since, until))
    series.reverse()
    return series


def without_first(plan: Plan, series: Series) -> Series | None:
    """Return what is left of a series after its first instant."""
    return None if series.count == 1 else _series(plan, series.first + _MOMENT, series.last)


def split_before_last(plan: Plan, series: Series, keep: int) -> tuple[Series | None, Series | None]:
    """Cut a series so that the later part holds `keep` instants, or all where it has no more."""
    if keep >= series.count:
        return None, series
    cut = series.last + _MOMENT
    for _ in range(keep):
        cut = plan.timetable.last_between(series.first, cut - _MOMENT) or series.first
    return _series(plan, series.first, cut - _MOMENT), _series(plan, cut, series.last)


def _series_back(plan: Plan, since: datetime, until: datetime) -> Iterator[Series]:
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
    plan: Plan, since: datetime, until: datetime, *, is_excluded: bool = False, is_too_old: bool = False
) -> Series | None:
    if until < since:
        return None
    last = plan.timetable.last_between(since, until)
    first = plan.timetable.next_after(since - _MOMENT)
    if first is None or last is None:
        return None
    count = 1 if first == last else plan.timetable.count_between(first, last)
    return Series(first, last, count, is_excluded, is_too_old)
