"""Exclusions of a schedule, and their form in the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, assert_never, cast

from gandy.errors import ExclusionError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final


#: Every occurrence is compared with every exclusion, so their number is bounded.
MOST_EXCLUSIONS: Final = 100
MOST_DATES: Final = 1_000


class Weekday(StrEnum):
    """The days of the week, in the order of `date.weekday`."""

    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"


WEEK: Final = tuple(Weekday)


@dataclass(frozen=True, slots=True)
class Days:
    """Days of the week."""

    days: frozenset[Weekday]

    def __post_init__(self) -> None:
        if not self.days:
            raise ExclusionError("no day of the week is given", 'Write Days.on("sat", "sun")')
        if len(self.days) == len(WEEK):
            raise ExclusionError(
                "all seven days are given, nothing would ever run", "Disable the job instead"
            )

    @classmethod
    def on(cls, *days: str) -> Days:
        """`Days.on("sat", "sun")`; full English names are accepted, too."""
        return cls(frozenset(_weekday(day) for day in days))


@dataclass(frozen=True, slots=True)
class Dates:
    """Single calendar days."""

    dates: frozenset[date]

    def __post_init__(self) -> None:
        if not self.dates:
            raise ExclusionError("no date is given", "Write Dates.on(date(2026, 12, 24))")
        if len(self.dates) > MOST_DATES:
            problem = f"{len(self.dates)} dates are more than {MOST_DATES}"
            raise ExclusionError(problem, "Use DateRange for consecutive days")

    @classmethod
    def on(cls, *dates: date) -> Dates:
        """`Dates.on(date(2026, 12, 24), date(2026, 12, 31))`."""
        return cls(frozenset(_calendar_day(day) for day in dates))


@dataclass(frozen=True, slots=True)
class DateRange:
    """All days from the first to the last, both included."""

    first: date
    last: date

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise ExclusionError(f"the range ends on {self.last}, before it begins", "Swap the two dates")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A time of day from start (included) to end (not included); it may cross midnight."""

    start: time
    end: time

    def __post_init__(self) -> None:
        if self.start == self.end:
            raise ExclusionError(f"the window begins and ends at {self.start}", "Give it a length")
        if self.start.tzinfo or self.end.tzinfo:
            raise ExclusionError("a window has a time zone", "The schedule's zone applies; use a plain time")
        if self.start.microsecond or self.end.microsecond:
            raise ExclusionError("a window has fractions of a second", "Use whole seconds")


Exclusion: TypeAlias = Days | Dates | DateRange | TimeWindow


def bounded(exclusions: tuple[Exclusion, ...]) -> tuple[Exclusion, ...]:
    """Return the exclusions unchanged; raise if they are too many or of a wrong type."""
    for given in exclusions:
        if not isinstance(given, Days | Dates | DateRange | TimeWindow):
            problem = f"exclude holds a {type(given).__name__}"
            raise ExclusionError(problem, "Use Days, Dates, DateRange or TimeWindow")
    if len(exclusions) > MOST_EXCLUSIONS:
        problem = f"{len(exclusions)} exclusions are more than {MOST_EXCLUSIONS}"
        raise ExclusionError(problem, "Join days and dates into one Days or Dates")
    return exclusions


def _weekday(name: str) -> Weekday:
    short = name.strip().lower()
    for day in Weekday:
        if short in {day.value, day.name.lower()}:
            return day
    raise ExclusionError(f"{name!r} is not a day of the week", "Use mon, tue, wed, thu, fri, sat or sun")


def _calendar_day(day: date) -> date:
    if isinstance(day, datetime):
        raise ExclusionError(f"{day} is an instant, not a date", "Use date(year, month, day)")
    return day


_LONGEST_TEXT: Final = 1_000_000
_REMEDY: Final = 'Write a list such as [{"days": ["sat", "sun"]}, {"start": "22:00", "end": "06:00"}]'


def to_json(exclusions: Iterable[Exclusion]) -> str:
    """Write the stored form; equal exclusions give equal text."""
    items = [_to_object(exclusion) for exclusion in bounded(tuple(exclusions))]
    return json.dumps(items, separators=(",", ":"))


def from_json(text: str) -> tuple[Exclusion, ...]:
    """Read the text of `to_json`, or of an operator."""
    if text == "[]":
        return ()
    items = _parsed(text)
    if not isinstance(items, list):
        raise ExclusionError("not a JSON list", _REMEDY)
    return bounded(tuple(_from_object(item) for item in items))


def _parsed(text: str) -> object:
    if len(text) > _LONGEST_TEXT:
        raise ExclusionError(f"{len(text)} characters are too many", "Use DateRange for consecutive days")
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ExclusionError(f"not JSON ({error})", _REMEDY) from error


def _to_object(exclusion: Exclusion) -> dict[str, object]:
    match exclusion:
        case Days(days):
            return {"days": [day.value for day in WEEK if day in days]}
        case Dates(dates):
            return {"dates": [day.isoformat() for day in sorted(dates)]}
        case DateRange(first, last):
            return {"first": first.isoformat(), "last": last.isoformat()}
        case TimeWindow(start, end):
            return {"start": start.isoformat(), "end": end.isoformat()}
        case _:
            assert_never(exclusion)


def _from_object(item: object) -> Exclusion:
    try:
        match item:
            case {"days": [*days], **rest} if not rest:
                return Days.on(*(_text(day) for day in days))
            case {"dates": [*dates], **rest} if not rest:
                return Dates.on(*(date.fromisoformat(_text(day)) for day in dates))
            case {"first": str(first), "last": str(last), **rest} if not rest:
                return DateRange(date.fromisoformat(first), date.fromisoformat(last))
            case {"start": str(start), "end": str(end), **rest} if not rest:
                return TimeWindow(time.fromisoformat(start), time.fromisoformat(end))
    except ExclusionError:
        raise
    except ValueError as error:
        raise ExclusionError(str(error), _REMEDY) from error
    raise ExclusionError(f"{str(item)[:80]} is not an exclusion", _REMEDY)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ExclusionError(f"{value!r} is not text", _REMEDY)
