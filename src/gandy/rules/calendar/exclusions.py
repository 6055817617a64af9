"""Which instants a manifest leaves out."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from gandy.errors import ExcludedInstantError
from gandy.model.exclusion import WEEK, DateRange, Dates, Days, Exclusion, TimeWindow
from gandy.model.schedule import Once
from gandy.rules.calendar.zones import DAY, instant_of, seconds_of, stretches_back, wall_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, time
    from typing import Final

    from gandy.model.schedule import Schedule

_MOMENT: Final = timedelta(microseconds=1)


def is_excluded(exclusions: tuple[Exclusion, ...], instant: datetime, timezone: str) -> bool:
    """Tell whether any exclusion holds at the instant, read in the zone."""
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
    """Go back to where the instant's stretch, excluded or not, began; not beyond the floor."""
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
    """Walk back over the seconds at which an exclusion may begin or end: midnights, windows, zone changes."""
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
