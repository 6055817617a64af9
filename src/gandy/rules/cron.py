"""Cron expressions: parsing, the pattern, and the instants in a time zone."""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from cronsim import CronSim, CronSimError

from gandy.errors import CronExpressionError
from gandy.rules.zones import DAY, Stretch, instant_of, seconds_of, stretches_back, stretches_from, zone
from gandy.settings.bounds import LONGEST_EXPRESSION, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final


NICKNAMES: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_RANGE: Final = re.compile(r"([0-9]{1,2}|[A-Z]{3})-([0-9]{1,2}|[A-Z]{3})(?:/([0-9]{1,2}))?")
_SUNDAY_AGAIN: Final = 7


class _Field(NamedTuple):
    """The values of a field, and their names."""

    low: int
    high: int
    names: tuple[str, ...] = ()

    def number(self, word: str) -> int | None:
        if word in self.names:
            return self.names.index(word) + self.low
        return int(word) if word.isdigit() else None


_SECONDS: Final = _Field(0, 59)
_FIELDS: Final = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, _MONTHS),
    _Field(0, 6, _WEEKDAYS),
)


def plain_expression(expression: str) -> str:
    """Rewrite an expression as plain fields: expand nicknames, and split ranges that wrap."""
    if not isinstance(expression, str):
        raise CronExpressionError(shown(expression), "is not text")
    if len(expression) > LONGEST_EXPRESSION:
        raise CronExpressionError(f"{expression[:40]}...", f"longer than {LONGEST_EXPRESSION} characters")
    words = expression.split()
    if words and words[0].startswith("@"):
        return _spelled_out(" ".join(words))
    fields = (_SECONDS, *_FIELDS) if len(words) > len(_FIELDS) else _FIELDS
    if len(words) != len(fields):
        return " ".join(words)  # the parser reports the problem
    plain = " ".join(_unwrapped(word, field) for word, field in zip(words, fields, strict=True))
    if len(plain) > LONGEST_EXPRESSION:
        problem = f"longer than {LONGEST_EXPRESSION} characters after its ranges that wrap are split"
        raise CronExpressionError(f"{expression[:40]}...", problem)
    return plain


def _spelled_out(word: str) -> str:
    if word.lower() == "@reboot":
        problem = "a schedule follows the clock, not the start of a machine; use schedule_once to run at once"
        raise CronExpressionError(word, problem)
    found = NICKNAMES.get(word.lower())
    if found is None:
        raise CronExpressionError(word, f"is not one of {', '.join(NICKNAMES)}")
    return found


def _unwrapped(text: str, field: _Field) -> str:
    return ",".join(_unwrapped_term(term, field) for term in text.split(","))


def _unwrapped_term(term: str, field: _Field) -> str:
    """Split a range that wraps into two; return any other term unchanged."""
    found = _RANGE.fullmatch(term.upper())
    if found is None:
        return term
    start, end = field.number(found[1]), field.number(found[2])
    step = int(found[3] or 1)
    if start is None or end is None or end >= start or step == 0:
        return term
    if start == _SUNDAY_AGAIN and field.names == _WEEKDAYS:
        return _part(0, end, step)
    if start > field.high:
        return term
    last = start + (field.high - start) // step * step
    again = last + step - field.high - 1 + field.low
    parts = [_part(start, field.high, step)] + ([_part(again, end, step)] if again <= end else [])
    return ",".join(parts)


def _part(start: int, end: int, step: int) -> str:
    """Write one range; omit the step of a single value, which would reach beyond it."""
    if start + step > end:
        return str(start)
    return f"{start}-{end}" if step == 1 else f"{start}-{end}/{step}"


#: The rarest date with a weekday, the 29th of February, recurs after at most 40 years.
HORIZON_YEARS: Final = 41
_FIRST_ORDINAL: Final = date(1970, 1, 1).toordinal()
_ANY_START: Final = datetime(2000, 1, 1)  # noqa: DTZ001  # the wall clock has no zone


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """The matching seconds of a day, and the days that match."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    goes_on: bool  #: minute or hour begin with a star: the pattern follows elapsed time through a DST change
    calendar: CronSim

    @property
    def per_day(self) -> int:
        """The number of matches on a matching day."""
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
        """Return whether it matches between two seconds of a day, the end not included."""
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
    """Parse an expression; raise if it is invalid or never matches."""
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


def validate(expression: str, timezone: str) -> None:
    """Raise for an expression that is invalid or never matches, and for an unknown zone."""
    parse(expression)
    zone(timezone)


@lru_cache(maxsize=16_384)
def next_after(expression: str, timezone: str, instant: datetime) -> datetime | None:
    """Find the first occurrence after the instant; None if there is none."""
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
