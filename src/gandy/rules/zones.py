"""Time zones as stretches of constant offset, in whole seconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from gandy.errors import TimezoneNotFoundError
from gandy.settings.bounds import shown
from gandy.settings.values import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY: Final = 86_400
#: No zone has ever changed its offset twice within three days, so one check per day is enough.
_LOOK: Final = DAY
_FIRST_YEAR: Final = 2
_LAST_YEAR: Final = 9_998
_SECOND: Final = timedelta(seconds=1)
_LAST_SECOND: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _SECOND


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time, end not included, in which the wall clock runs at one offset."""

    start: int
    end: int
    offset: int
    reached: int  #: the wall clock's maximum before: less than at start is a gap, more a repetition

    @property
    def wall_start(self) -> int:
        """The wall clock at the start."""
        return self.start + self.offset

    @property
    def wall_end(self) -> int:
        """The wall clock at the end, by this offset."""
        return self.end + self.offset


def zone(name: str) -> ZoneInfo:
    """Return an IANA zone; raise for any other name."""
    if not isinstance(name, str):
        raise TimezoneNotFoundError(shown(name))
    return _zone(name)


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError, TypeError, AttributeError) as error:
        raise TimezoneNotFoundError(shortened(name)) from error


def wall_of(instant: datetime, name: str) -> datetime:
    """Return the wall clock of a zone; the last hours of the calendar stay in UTC."""
    try:
        return instant.astimezone(zone(name))
    except OverflowError:
        return instant


def seconds_of(instant: datetime) -> int:
    """Count the whole seconds since 1970."""
    return (instant - EPOCH) // _SECOND


def instant_of(seconds: int) -> datetime:
    """Return the instant in UTC that many seconds after 1970."""
    return EPOCH + timedelta(seconds=seconds)


def stretches_from(name: str, seconds: int, *, years: int) -> Iterator[Stretch]:
    """Yield stretches forward from the one that contains the instant, for at most `years` years."""
    first = _year_of(seconds)
    for year in range(first, min(first + years, _LAST_YEAR) + 1):
        for stretch in year_stretches(name, year):
            if stretch.end > seconds:
                yield stretch


def stretches_back(name: str, seconds: int, *, floor: int) -> Iterator[Stretch]:
    """Yield stretches backward from the one that contains the instant to the one that contains the floor."""
    for year in range(min(_year_of(seconds), _LAST_YEAR), max(_year_of(floor), _FIRST_YEAR) - 1, -1):
        for stretch in reversed(year_stretches(name, year)):
            if stretch.start <= seconds and stretch.end > floor:
                yield stretch


@lru_cache(maxsize=4096)
def year_stretches(name: str, year: int) -> tuple[Stretch, ...]:
    """Split a year (UTC) where the zone changes its offset."""
    start, end = _year_start(year), _year_start(year + 1)
    # Start two days early, to detect a repetition across New Year.
    early = start - 2 * DAY
    edges = sorted({early, start, end, *_changes(name, early, end)})
    reached = early + _offset(name, early)
    stretches = []
    for begin, stop in pairwise(edges):
        offset = _offset(name, begin)
        if begin >= start:
            stretches.append(Stretch(begin, stop, offset, reached))
        reached = max(reached, stop + offset)
    return tuple(stretches)


def _changes(name: str, start: int, end: int) -> list[int]:
    looks = [*range(start, end, _LOOK), end]
    return [
        _first_second_after_change(name, early, late)
        for early, late in pairwise(looks)
        if _offset(name, early) != _offset(name, late)
    ]


def _first_second_after_change(name: str, early: int, late: int) -> int:
    before = _offset(name, early)
    while late - early > 1:
        middle = (early + late) // 2
        if _offset(name, middle) == before:
            early = middle
        else:
            late = middle
    return late


def _offset(name: str, seconds: int) -> int:
    offset = wall_of(instant_of(seconds), name).utcoffset()
    return 0 if offset is None else offset // _SECOND


def _year_of(seconds: int) -> int:
    return instant_of(min(seconds, _LAST_SECOND)).year


def _year_start(year: int) -> int:
    return seconds_of(datetime(year, 1, 1, tzinfo=UTC))
