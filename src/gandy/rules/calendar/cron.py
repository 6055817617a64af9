"""Occurrences of a cron expression in a zone, with daylight saving handled as Debian's cron does.

A time that the clock skips runs at the first instant after the gap, a time that it shows twice runs
once. Where minute or hour begin with a star the pattern simply follows the wall clock instead.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gandy.rules.calendar.pattern import HORIZON_YEARS, Pattern, parse
from gandy.rules.calendar.zones import (
    Stretch,
    instant_of,
    seconds_of,
    stretches_back,
    stretches_from,
    zone,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


def validate(expression: str, timezone: str) -> None:
    """Refuse an expression that cannot be read or never matches, and an unknown zone."""
    parse(expression)
    zone(timezone)


@lru_cache(maxsize=16_384)
def next_after(expression: str, timezone: str, instant: datetime) -> datetime | None:
    """Find the first occurrence after the instant; None when there is none any more."""
    pattern, floor = parse(expression), seconds_of(instant) + 1
    for stretch in stretches_from(timezone, floor, years=HORIZON_YEARS):
        found = _first(pattern, stretch, floor)
        if found is not None:
            return instant_of(found)
    return None


@lru_cache(maxsize=16_384)
def last_between(expression: str, timezone: str, *, since: datetime, until: datetime) -> datetime | None:
    """Find the last occurrence in a span of time, both ends included."""
    pattern, floor, end = parse(expression), _first_second_from(since), seconds_of(until) + 1
    if end <= floor:
        return None
    for stretch in stretches_back(timezone, end - 1, floor=floor):
        found = _last(pattern, stretch, floor=floor, end=end)
        if found is not None:
            return instant_of(found)
    return None


@lru_cache(maxsize=16_384)
def count_between(expression: str, timezone: str, *, since: datetime, until: datetime) -> int:
    """Count the occurrences in a span of time, both ends included; by arithmetic, not by walking."""
    pattern, floor, end = parse(expression), _first_second_from(since), seconds_of(until) + 1
    if end <= floor:
        return 0
    spans = stretches_back(timezone, end - 1, floor=floor)
    return sum(_count(pattern, stretch, floor=floor, end=end) for stretch in spans)


def occurrences(expression: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """Walk the occurrences after an instant."""
    found = next_after(expression, timezone, after)
    while found is not None:
        yield found
        found = next_after(expression, timezone, found)


def _first(pattern: Pattern, stretch: Stretch, floor: int) -> int | None:
    if stretch.start >= floor and _runs_after_gap(pattern, stretch):
        return stretch.start
    found = pattern.first_in(_wall_floor(pattern, stretch, floor), stretch.wall_end)
    return None if found is None else found - stretch.offset


def _last(pattern: Pattern, stretch: Stretch, *, floor: int, end: int) -> int | None:
    wall_end = min(stretch.end, end) + stretch.offset
    found = pattern.last_in(_wall_floor(pattern, stretch, floor), wall_end)
    if found is not None:
        return found - stretch.offset
    return stretch.start if stretch.start >= floor and _runs_after_gap(pattern, stretch) else None


def _count(pattern: Pattern, stretch: Stretch, *, floor: int, end: int) -> int:
    wall_floor = _wall_floor(pattern, stretch, floor)
    count = pattern.count_in(wall_floor, min(stretch.end, end) + stretch.offset)
    if stretch.start < floor or not _runs_after_gap(pattern, stretch):
        return count
    # The instant after the gap may match by itself as well: it is one occurrence.
    return count + 1 - pattern.count_in(stretch.wall_start, stretch.wall_start + 1)


def _wall_floor(pattern: Pattern, stretch: Stretch, floor: int) -> int:
    wall_floor = max(stretch.start, floor) + stretch.offset
    return wall_floor if pattern.goes_on else max(wall_floor, stretch.reached)


def _runs_after_gap(pattern: Pattern, stretch: Stretch) -> bool:
    if pattern.goes_on or stretch.reached >= stretch.wall_start:
        return False
    return pattern.first_in(stretch.reached, stretch.wall_start) is not None


def _first_second_from(instant: datetime) -> int:
    return seconds_of(instant) + (1 if instant.microsecond else 0)
