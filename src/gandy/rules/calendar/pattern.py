"""A cron expression as a pattern on the wall clock, in whole seconds, without any zone."""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from cronsim import CronSim, CronSimError

from gandy.errors import CronExpressionError
from gandy.rules.calendar.words import plain_expression
from gandy.rules.calendar.zones import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

#: The rarest date with a weekday, the 29th of February, comes back after at most 40 years.
HORIZON_YEARS: Final = 41
_FIRST_ORDINAL: Final = date(1970, 1, 1).toordinal()
_ANY_START: Final = datetime(2000, 1, 1)  # noqa: DTZ001  # the wall clock has no zone


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """The matching seconds of a day, and the days that match."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    goes_on: bool  #: minute or hour begin with a star: the pattern follows the clock through a DST change
    calendar: CronSim

    @property
    def per_day(self) -> int:
        """How often the pattern matches on a day that matches."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def first_in(self, start: int, end: int) -> int | None:
        """Find the first match, end not included."""
        day, time = divmod(start, DAY)
        rank = self._rank(time)
        if rank == self.per_day or not self._matches(day):
            following = self._first_day(day + 1, (end - 1) // DAY)
            if following is None:
                return None
            day, rank = following, 0
        found = day * DAY + self._time(rank)
        return found if found < end else None

    def last_in(self, start: int, end: int) -> int | None:
        """Find the last match, end not included."""
        day, time = divmod(end, DAY)
        rank = self._rank(time)
        if rank == 0 or not self._matches(day):
            earlier = self._last_day(start // DAY, day - 1)
            if earlier is None:
                return None
            day, rank = earlier, self.per_day
        found = day * DAY + self._time(rank - 1)
        return found if found >= start else None

    def count_in(self, start: int, end: int) -> int:
        """Count the matches, end not included."""
        if end <= start:
            return 0
        first, first_time = divmod(start, DAY)
        last, last_time = divmod(end, DAY)
        days = sum(days.bit_count() for _, days in self._months(first, last - 1))
        before = self._rank(first_time) if self._matches(first) else 0
        after = self._rank(last_time) if self._matches(last) else 0
        return days * self.per_day - before + after

    def matches_time(self, start: int, end: int) -> bool:
        """Tell whether it matches between two seconds of a day, the end not included."""
        return self._rank(end) > self._rank(start)

    def days_in(self, first: int, last: int) -> Iterator[int]:
        """Walk the days that match, from the first to the last, in days since 1970."""
        for start, days in self._months(first, last):
            yield from (start + day for day in range(1, 32) if days >> day & 1)

    def _rank(self, time: int) -> int:
        """Count the matches of a day that come before this second of it."""
        hour, rest = divmod(time, 3600)
        minute, second = divmod(rest, 60)
        place = bisect_left(self.hours, hour)
        rank = place * len(self.minutes)
        if place == len(self.hours) or self.hours[place] != hour:
            return rank * len(self.seconds)
        place = bisect_left(self.minutes, minute)
        rank = (rank + place) * len(self.seconds)
        if place == len(self.minutes) or self.minutes[place] != minute:
            return rank
        return rank + bisect_left(self.seconds, second)

    def _time(self, rank: int) -> int:
        """Return the second of the day of the match with that rank."""
        rank, second = divmod(rank, len(self.seconds))
        hour, minute = divmod(rank, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]

    def _matches(self, day: int) -> bool:
        at = date.fromordinal(day + _FIRST_ORDINAL)
        return bool(_matching_days(self, at.year, at.month) >> at.day & 1)

    def _first_day(self, first: int, last: int) -> int | None:
        for start, days in self._months(first, last):
            if days:
                return start + (days & -days).bit_length() - 1
        return None

    def _last_day(self, first: int, last: int) -> int | None:
        for start, days in self._months(first, last, backward=True):
            if days:
                return start + days.bit_length() - 1
        return None

    def _months(self, first: int, last: int, *, backward: bool = False) -> Iterator[tuple[int, int]]:
        """Walk the months between two days: the day before each, and its matching days as bits."""
        if last < first:
            return
        months = range(_month_number(first), _month_number(last) + 1)
        for number in reversed(months) if backward else months:
            year, month = number // 12, number % 12 + 1
            start = date(year, month, 1).toordinal() - _FIRST_ORDINAL - 1
            days = _matching_days(self, year, month)
            low, high = max(first - start, 0), min(last - start, 31)
            yield start, days >> low << low & (2 << high) - 1


@lru_cache(maxsize=4096)
def parse(expression: str) -> Pattern:
    """Read an expression; one that cannot be read or never matches is refused."""
    pattern = _read(expression)
    start = _day_number(_ANY_START.date()) * DAY
    if pattern.first_in(start, start + HORIZON_YEARS * 366 * DAY) is None:
        raise CronExpressionError(expression, "no date ever matches")
    return pattern


def _read(expression: str) -> Pattern:
    plain = plain_expression(expression)
    try:
        calendar = CronSim(plain, _ANY_START)
    except CronSimError as error:
        raise CronExpressionError(expression, str(error).lower()) from error
    minute, hour = calendar.parts[1:3]
    return Pattern(
        seconds=tuple(sorted(calendar.seconds)),
        minutes=tuple(sorted(calendar.minutes)),
        hours=tuple(sorted(calendar.hours)),
        goes_on=minute.startswith("*") or hour.startswith("*"),
        calendar=calendar,
    )


@lru_cache(maxsize=65_536)
def _matching_days(pattern: Pattern, year: int, month: int) -> int:
    """Set the bit of each day of the month that matches."""
    if month not in pattern.calendar.months:
        return 0
    days = range(1, monthrange(year, month)[1] + 1)
    return sum(1 << day for day in days if pattern.calendar.match_day(date(year, month, day)))


def _day_number(day: date) -> int:
    return day.toordinal() - _FIRST_ORDINAL


def _month_number(day: int) -> int:
    at = date.fromordinal(day + _FIRST_ORDINAL)
    return at.year * 12 + at.month - 1
