"""Exclusions: which instants they remove, and whether any instant remains."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, assert_never

from gandy.errors import ExcludedInstantError, ExclusionError
from gandy.model.exclusion import WEEK, DateRange, Dates, Days, Exclusion, TimeWindow
from gandy.model.schedule import Cron, Interval, Once, Recurring
from gandy.rules.cron import HORIZON_YEARS, parse
from gandy.rules.zones import DAY, EPOCH, instant_of, seconds_of, stretches_back, stretches_from, wall_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, time
    from typing import Final, TypeAlias

    from gandy.model.schedule import Schedule

    Exclusions: TypeAlias = tuple[Exclusion, ...]


_MOMENT: Final = timedelta(microseconds=1)


def is_excluded(exclusions: tuple[Exclusion, ...], instant: datetime, timezone: str) -> bool:
    """Return whether any exclusion covers the instant, in the given zone."""
    if not exclusions:
        return False
    wall = wall_of(instant, timezone)
    return any(_holds(exclusion, wall) for exclusion in exclusions)


def refuse_excluded_once(schedule: Schedule, exclusions: tuple[Exclusion, ...], at: datetime) -> None:
    """Refuse a one-off job whose instant is excluded: it would never run."""
    if isinstance(schedule, Once) and is_excluded(exclusions, at, schedule.timezone):
        raise ExcludedInstantError(at, schedule.timezone)


def stretch_start(
    exclusions: tuple[Exclusion, ...], instant: datetime, timezone: str, *, floor: datetime
) -> datetime:
    """Return the start of the period, excluded or not, that contains the instant; at least the floor."""
    excluded = is_excluded(exclusions, instant, timezone)
    for edge in _edges_back(exclusions, timezone, seconds_of(instant), floor=seconds_of(floor)):
        start = instant_of(edge)
        if start <= floor:
            break
        if is_excluded(exclusions, start - _MOMENT, timezone) != excluded:
            return start
    return floor


def _holds(exclusion: Exclusion, wall: datetime) -> bool:
    match exclusion:
        case Days(days):
            return WEEK[wall.weekday()] in days
        case Dates(dates):
            return wall.date() in dates
        case DateRange(first, last):
            return first <= wall.date() <= last
        case TimeWindow(start, end):
            return _is_within(wall.time(), start, end)
        case _:
            assert_never(exclusion)


def _is_within(at: time, start: time, end: time) -> bool:
    if start < end:
        return start <= at < end
    return at >= start or at < end


def _edges_back(
    exclusions: tuple[Exclusion, ...], timezone: str, seconds: int, *, floor: int
) -> Iterator[int]:
    """Yield backward the seconds at which an exclusion may begin or end: midnights, windows, zone changes."""
    times = _edge_times(exclusions)
    for stretch in stretches_back(timezone, seconds, floor=floor):
        last = min(seconds + 1, stretch.end) + stretch.offset - 1
        for day in range(last // DAY, stretch.wall_start // DAY - 1, -1):
            walls = (day * DAY + time for time in times)
            yield from (wall - stretch.offset for wall in walls if stretch.wall_start < wall <= last)
        yield stretch.start


@lru_cache(maxsize=1024)
def _edge_times(exclusions: tuple[Exclusion, ...]) -> tuple[int, ...]:
    """List the seconds of a day at which a window or a day begins or ends, the latest first."""
    windows = [exclusion for exclusion in exclusions if isinstance(exclusion, TimeWindow)]
    edges = {0} | {_second_of_day(edge) for window in windows for edge in (window.start, window.end)}
    return tuple(sorted(edges, reverse=True))


def _second_of_day(at: time) -> int:
    return at.hour * 3600 + at.minute * 60 + at.second


_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = 1_000_000
_WEEK: Final = 7 * DAY * _SECOND
_FIRST_ORDINAL: Final = EPOCH.toordinal()
_THURSDAY: Final = 3  # 1970-01-01
_ANY_DAY: Final = date(2000, 1, 1).toordinal() - _FIRST_ORDINAL
_LAST_START: Final = date(9_950, 1, 1).toordinal() - _FIRST_ORDINAL
_HORIZON: Final = HORIZON_YEARS * 366
_YEARS_OF_OFFSETS: Final = 2
_REMEDY: Final = "Exclude less, or disable the job instead"


def refuse_none_left(
    schedule: Schedule, exclusions: Exclusions, *, now: datetime | None = None, anchor: datetime | None = None
) -> None:
    """Raise for exclusions that exclude every instant; `anchor` is an instant of a rate, if known."""
    if not exclusions or not isinstance(schedule, Recurring):
        return
    open_times = _open_times(exclusions)
    if not open_times:
        raise ExclusionError("the windows together cover the whole day, nothing would ever run", _REMEDY)
    if not _open_weekdays(exclusions):
        raise ExclusionError("all seven days are excluded, nothing would ever run", _REMEDY)
    if isinstance(schedule, Cron):
        _refuse_cron(schedule, exclusions, open_times, now=now)
    else:
        _refuse_rate(schedule, exclusions, open_times, now=now, anchor=anchor)


def _refuse_cron(
    schedule: Cron, exclusions: Exclusions, open_times: list[tuple[int, int]], *, now: datetime | None
) -> None:
    pattern = parse(schedule.expression)
    if not any(pattern.matches_time(start, end) for start, end in open_times):
        problem = f"each time of day at which {schedule.expression!r} runs is in a window"
        raise ExclusionError(f"{problem}, nothing would ever run", "Shorten the windows or move the times")
    days = (day for first in _starts(exclusions, now) for day in pattern.days_in(first, first + _HORIZON))
    if not any(_is_open_day(exclusions, day) for day in days):
        problem = f"each day on which {schedule.expression!r} runs is excluded"
        raise ExclusionError(f"{problem}, nothing would ever run", "Exclude fewer days or move the days")


def _refuse_rate(
    schedule: Interval,
    exclusions: Exclusions,
    open_times: list[tuple[int, int]],
    *,
    now: datetime | None,
    anchor: datetime | None,
) -> None:
    days = (day for first in _starts(exclusions, now) for day in range(first, first + _HORIZON))
    if not any(_is_open_day(exclusions, day) for day in days):
        raise ExclusionError("each day from now on is excluded, nothing would ever run", _REMEDY)
    if anchor is not None and not _rate_meets(schedule, exclusions, open_times, anchor=anchor):
        problem = f"every {schedule.every} from {anchor} on, each instant is excluded"
        raise ExclusionError(
            f"{problem}, nothing would ever run", "Use a cron at a time that is not excluded"
        )


def _rate_meets(
    schedule: Interval, exclusions: Exclusions, open_times: list[tuple[int, int]], *, anchor: datetime
) -> bool:
    """Return whether some instant falls into an open time of the week, at any offset of the zone."""
    at = anchor - EPOCH
    step = gcd(schedule.every // _MICROSECOND, _WEEK)
    seconds = seconds_of(anchor)
    stretches = stretches_from(schedule.timezone, seconds, years=_YEARS_OF_OFFSETS)
    for offset in {stretch.offset for stretch in stretches}:
        place = at // _MICROSECOND + (offset + _THURSDAY * DAY) * _SECOND
        for start, end in _open_week(exclusions, open_times):
            if start + (place - start) % step < end:
                return True
    return False


def _open_week(exclusions: Exclusions, open_times: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the open spans of a week that begins on Monday, in microseconds."""
    for weekday in _open_weekdays(exclusions):
        for start, end in open_times:
            yield (weekday * DAY + start) * _SECOND, (weekday * DAY + end) * _SECOND


def _open_weekdays(exclusions: Exclusions) -> list[int]:
    out = {day for each in exclusions if isinstance(each, Days) for day in each.days}
    return [number for number, day in enumerate(WEEK) if day not in out]


def _open_times(exclusions: Exclusions) -> list[tuple[int, int]]:
    """List the spans of a day outside the windows, in seconds, the ends not included."""
    closed = sorted(part for each in exclusions if isinstance(each, TimeWindow) for part in _parts(each))
    left, reached = [], 0
    for start, end in closed:
        if start > reached:
            left.append((reached, start))
        reached = max(reached, end)
    return [*left, (reached, DAY)] if reached < DAY else left


def _parts(window: TimeWindow) -> list[tuple[int, int]]:
    start, end = _second_of_day(window.start), _second_of_day(window.end)
    return [(start, end)] if start < end else [(start, DAY), (0, end)]


def _starts(exclusions: Exclusions, now: datetime | None) -> list[int]:
    """Return the days from which to search: today, and the day after the last excluded date."""
    last = max((_last_day(each) for each in exclusions), default=0)
    beyond = [max(last + 1, _ANY_DAY)] if last < _LAST_START else []
    if now is not None:
        return [now.toordinal() - _FIRST_ORDINAL, *beyond]
    return beyond or [0]


def _last_day(exclusion: Exclusion) -> int:
    match exclusion:
        case Dates(dates):
            return max(dates).toordinal() - _FIRST_ORDINAL
        case DateRange(_, last):
            return last.toordinal() - _FIRST_ORDINAL
        case _:
            return 0


def _is_open_day(exclusions: Exclusions, number: int) -> bool:
    day = date.fromordinal(number + _FIRST_ORDINAL)
    return not any(_holds_day(each, day) for each in exclusions)


def _holds_day(exclusion: Exclusion, day: date) -> bool:
    match exclusion:
        case Days(days):
            return WEEK[day.weekday()] in days
        case Dates(dates):
            return day in dates
        case DateRange(first, last):
            return first <= day <= last
        case _:
            return False
