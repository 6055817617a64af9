"""How the judge reads stored instants: when a value has surely passed, and when it may have."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum

from tests.lifecycle.fuzz.shapes import NUMBERS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime(1990, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_DURATION = re.compile(r"(\d+)(ms|us|w|d|h|m|s)")
_SPANS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}


UNITS = ("yyyymmdd", *NUMBERS)


class Passed(IntEnum):
    """Whether an instant lies behind a cutoff."""

    NO = 0
    OPEN = 1  # two readings are possible: the row may go and need not
    YES = 2


def duration(text: str) -> timedelta:
    """Read `1h30m` and the like."""
    return sum((int(count) * _SPANS[unit] for count, unit in _DURATION.findall(text)), start=timedelta())


def has_passed(value: object, kind: str, cutoff: datetime) -> Passed:
    """Judge one stored value; what cannot be read has not passed."""
    if value is None or value == "infinity":
        return Passed.NO
    if value == "-infinity":
        return Passed.OPEN
    if kind in NUMBERS:
        return _number_passed(value, kind, cutoff)
    if kind == "yyyymmdd":
        return _day_passed(_digits(value), cutoff)
    return _text_passed(str(value), kind, cutoff)


def fits(value: object, unit: str) -> bool:
    """Whether a number is an instant of the unit between 1990 and 2100."""
    if unit == "yyyymmdd":
        return _digits(value) is not None
    scale = NUMBERS[unit]
    return isinstance(value, int) and _units(_FIRST, scale) <= value < _units(_LAST, scale)


def is_instant(value: object, kind: str) -> bool:
    """Whether a value tells its age at all."""
    if kind == "iso":  # with an offset it does not sort by its age
        return _ISO.fullmatch(str(value)) is not None and not str(value).endswith("+05:00")
    return fits(value, kind) if kind in UNITS else True


def _number_passed(value: object, kind: str, cutoff: datetime) -> Passed:
    """Whole units since 1970; a value outside of 1990 to 2100 fits no unit and is kept."""
    scale = NUMBERS[kind]
    if not isinstance(value, int) or not fits(value, kind):
        return Passed.NO
    return _compared(value, _units(cutoff, scale))


def _units(instant: datetime, scale: int) -> int:
    microseconds = (instant - _EPOCH) // timedelta(microseconds=1)
    return microseconds * scale // 1_000_000


def _compared(value: int, cutoff: int) -> Passed:
    if value == cutoff:
        return Passed.OPEN
    return Passed.YES if value < cutoff else Passed.NO


def _digits(value: object) -> date | None:
    """A day written as YYYYMMDD, between 1990 and 2100."""
    if not isinstance(value, int) or not 19_900_101 <= value < 21_000_101:
        return None
    try:
        return date(value // 10_000, value // 100 % 100, value % 100)
    except ValueError:
        return None


def _day_passed(day: date | None, cutoff: datetime) -> Passed:
    """A day has passed when it is over."""
    if day is None:
        return Passed.NO
    return Passed.YES if day < cutoff.astimezone(UTC).date() else Passed.NO


def _text_passed(text: str, kind: str, cutoff: datetime) -> Passed:
    if kind == "iso" and _ISO.fullmatch(text) is None:
        return Passed.NO
    read = _read(text)
    if read is None:
        return Passed.NO
    if len(text) == len("2000-01-01"):
        return _day_passed(read.date(), cutoff)
    if kind == "iso":  # compared as text: at most a second late, and never early
        late = Passed.YES if read < cutoff - timedelta(seconds=2) else Passed.OPEN
        return late if read <= cutoff else Passed.NO
    if read == cutoff:
        return Passed.OPEN
    return Passed.YES if read < cutoff else Passed.NO


def _read(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def rank(value: object, kind: str) -> tuple[int, object]:
    """Where a value sorts among others of its kind: NULL first, then as the database orders it."""
    if value is None:
        return (0, 0)
    if value == "-infinity":
        return (1, 0)
    if value == "infinity":
        return (3, 0)
    if kind in {"timestamptz", "timestamp", "date"}:
        return (2, _read(str(value)))
    return (2, value)
