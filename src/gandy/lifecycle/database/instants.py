"""How application tables store instants, and how to compare them with a cutoff."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    not_,
    or_,
    type_coerce,
)
from sqlalchemy.types import Date, DateTime, TypeEngine

from gandy.lifecycle.contract.fields import Unit
from gandy.lifecycle.database import numbers
from gandy.lifecycle.database.numbers import Window, as_number, is_placeholder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TEXT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:([T ])((?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?)(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_UTC = ("Z", "+00:00", "+0000")
_ZONES = ("", *_UTC)
SEPARATORS = ("", " ", "T")  # between date and time; the first is for a date without a time
_DAY_LENGTH = len("0000-00-00")
_MINUTES = "[0-2][0-9]:[0-5][0-9]"
_SECONDS = f"{_MINUTES}:[0-5][0-9]"
_ANY_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
# PostgreSQL stores instants that Python cannot represent: infinities, and years before 1 and after 9999.
_READABLE = ("0001-01-01", "9999-12-31")


_MOST = 1.5  # a form prevails if its samples times this factor reach the number of all samples
T = TypeVar("T")


class UnreadableError(ValueError):
    """The values of a column cannot be read as instants: the data are the cause, not the contract."""


class InstantKind(StrEnum):
    """The ways to write an instant."""

    ZONED = "timestamp with time zone"
    NAIVE = "timestamp without time zone, read as UTC"
    DATE = "date"
    SECONDS = "seconds since 1970"
    MILLISECONDS = "milliseconds since 1970"
    MICROSECONDS = "microseconds since 1970"
    NANOSECONDS = "nanoseconds since 1970"
    DAY_NUMBER = "days written as YYYYMMDD"
    TEXT = "text"
    UNKNOWN = "numbers of an unknown unit"  # no value is before any cutoff


WINDOWS: dict[InstantKind, Window] = {
    InstantKind.SECONDS: numbers.SECONDS,
    InstantKind.MILLISECONDS: numbers.MILLISECONDS,
    InstantKind.MICROSECONDS: numbers.MICROSECONDS,
    InstantKind.NANOSECONDS: numbers.NANOSECONDS,
    InstantKind.DAY_NUMBER: numbers.DAY_NUMBER,
}
_KINDS = {
    Unit.SECONDS: InstantKind.SECONDS,
    Unit.MILLISECONDS: InstantKind.MILLISECONDS,
    Unit.MICROSECONDS: InstantKind.MICROSECONDS,
    Unit.NANOSECONDS: InstantKind.NANOSECONDS,
    Unit.DAY_NUMBER: InstantKind.DAY_NUMBER,
}


@dataclass(frozen=True, slots=True)
class Form:
    """How one column stores instants; the separator is for text, empty for a date without a time."""

    kind: InstantKind
    separator: str = ""
    is_digits: bool = False  # a number that is stored as a text

    @property
    def window(self) -> Window | None:
        """The range of valid numbers; None unless the form is a number of a known unit."""
        return WINDOWS.get(self.kind)

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers, of a known unit or not."""
        return self.kind in WINDOWS or self.kind is InstantKind.UNKNOWN


def is_before(column: ColumnElement[object], form: Form, cutoff: datetime) -> ColumnElement[bool]:
    """Return a condition: the instant is at or before the cutoff; never true for NULL or doubtful text."""
    match form.kind:
        case InstantKind.ZONED:
            return column <= cutoff
        case InstantKind.NAIVE:
            return column <= cutoff.astimezone(UTC).replace(tzinfo=None)
        case InstantKind.DATE:
            return column < cutoff.astimezone(UTC).date()
        case InstantKind.TEXT:
            return _text_before(column, form, cutoff)
        case InstantKind.UNKNOWN:
            return and_(column > literal(1, BigInteger), column < literal(0, BigInteger))
        case (
            InstantKind.SECONDS
            | InstantKind.MILLISECONDS
            | InstantKind.MICROSECONDS
            | InstantKind.NANOSECONDS
            | InstantKind.DAY_NUMBER
        ):
            window = WINDOWS[form.kind]
            return window.text_before(column, cutoff) if form.is_digits else window.before(column, cutoff)
        case _:
            assert_never(form.kind)


def readable(column: ColumnElement[object], form: Form) -> ColumnElement[object]:
    """Clamp the column to the years 1 to 9999, which Python can represent."""
    types: dict[InstantKind, TypeEngine[Any]] = {
        InstantKind.ZONED: DateTime(timezone=True),
        InstantKind.NAIVE: DateTime(),
        InstantKind.DATE: Date(),
    }
    if form.kind not in types:
        return column
    early, late = (cast(literal(end), types[form.kind]) for end in _READABLE)
    return case((column < early, early), (column > late, late), else_=column)


def read_instant(value: object, form: Form) -> datetime | None:
    """Convert a stored value to an instant; None if it is not one."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if form.is_number:
        number = as_number(value)
        return None if number is None or form.window is None else form.window.read(number)
    return _read_text(value) if isinstance(value, str) else None


def _read_text(value: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        return None
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def _text_before(column: ColumnElement[object], form: Form, cutoff: datetime) -> ColumnElement[bool]:
    """Compare as text with microseconds but no zone: never early, at most a second late.

    An index serves the comparison; the other conditions exclude values that are not instants of this form.
    """
    at = cutoff.astimezone(UTC)
    text = type_coerce(column, String)
    if not form.separator:
        return and_(text < at.strftime("%Y-%m-%d"), _is_text_instant(text, form))
    written = f"%Y-%m-%d{form.separator}%H:%M:%S.%f"
    just_after = at + timedelta(microseconds=1)
    return and_(
        text < just_after.strftime(written),
        not_(_globs(text, at.strftime(written) + "[0-9]*")),  # a fraction of the microsecond may be later
        _is_text_instant(text, form),
    )


def _is_text_instant(text: ColumnElement[str], form: Form) -> ColumnElement[bool]:
    """Return a condition: the whole text is an instant of this form, in UTC."""
    day = func.substr(text, 1, 10)
    # SQLite normalises February 31 to a day of March: a date is valid only if it comes back unchanged.
    is_day = and_(_globs(day, _ANY_DAY), func.date(day, "+0 days") == day, not_(_globs(day, "0000*")))
    # SQLite's functions read a text only up to the first NUL.
    is_whole = func.instr(text, func.char(0)) == 0
    if not form.separator:
        return and_(func.length(text) == _DAY_LENGTH, is_whole, is_day)
    is_apart = func.substr(text, _DAY_LENGTH + 1, 1) == form.separator
    return and_(is_apart, is_whole, is_day, _is_clock(func.substr(text, _DAY_LENGTH + 2)))


def _is_clock(rest: ColumnElement[str]) -> ColumnElement[bool]:
    """Match hours and minutes, optional seconds with a fraction, and UTC or no time zone."""
    after_minutes, after_seconds = (func.substr(rest, len(form) + 1) for form in ("00:00", "00:00:00"))
    after_fraction = func.ltrim(func.substr(rest, len("00:00:00.") + 1), "0123456789")
    zones = [literal(zone) for zone in _ZONES]  # not expanded at each execution, as plain texts would be
    return and_(
        rest < "24",
        or_(
            and_(_globs(rest, f"{_MINUTES}*"), after_minutes.in_(zones)),
            and_(_globs(rest, f"{_SECONDS}*"), after_seconds.in_(zones)),
            and_(_globs(rest, f"{_SECONDS}.[0-9]*"), after_fraction.in_(zones)),
        ),
    )


def is_strange_text(column: ColumnElement[object], form: Form) -> ColumnElement[bool]:
    """Return a condition: the value is not an instant of this text form, so its row stays."""
    text = type_coerce(column, String)
    is_instant = and_(func.typeof(column) == "text", _is_text_instant(text, form))
    return and_(column.is_not(None), not_(func.coalesce(is_instant, false())))


def _globs(column: ColumnElement[str], pattern: str) -> ColumnElement[bool]:
    return column.bool_op("GLOB")(literal(pattern))


def is_text_instant(value: object, form: Form | None = None) -> bool:
    """Whether a stored value is an instant as text in UTC, of this form or, without a form, of any."""
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if match is None or (match[4] or "Z") not in _UTC:
        return False
    try:
        date.fromisoformat(match[1])
    except ValueError:
        return False
    return form is None or form.separator == (match[2] or "")


def form_of_texts(samples: list[object], column: str) -> Form:
    """Return the form of most samples; raise UnreadableError if none prevails or none is an instant."""
    instants = [sample for sample in samples if is_text_instant(sample)]
    if samples and not instants:
        match = _TEXT.fullmatch(samples[0]) if isinstance(samples[0], str) else None
        if match is not None and (match[4] or "Z") not in _UTC:
            reason = f"holds {samples[0]!r}: an offset other than UTC does not sort as text"
        else:
            reason = f"holds {samples[0]!r}, which is not an instant as text"
        raise UnreadableError(f"{column} {reason}")
    return Form(InstantKind.TEXT, prevailing(instants, separator_of, column) if instants else "T")


def separator_of(instant: object) -> str:
    """Return the separator between the date and the time of an instant as text."""
    return str(instant)[_DAY_LENGTH : _DAY_LENGTH + 1]


def prevailing(samples: Sequence[object], form_of: Callable[[object], T], column: str) -> T:
    """Return the form of at least two thirds of the samples; raise UnreadableError if there is none.

    A predicate matches only whole instants of its form, so rows in other forms stay.
    """
    forms = Counter(map(form_of, samples))
    [(form, count), *others] = forms.most_common()
    if _MOST * count >= len(samples):
        return form
    examples = [next(each for each in samples if form_of(each) == other) for other in (form, others[0][0])]
    raise UnreadableError(
        f"{column} holds {examples[0]!r} and {examples[1]!r}: instants in more than one form, and none "
        "prevails; write them in one form"
    )


def kind_of_unit(unit: Unit | None) -> InstantKind | None:
    """Return the kind of number of a declared unit."""
    return None if unit is None else _KINDS.get(unit)


def kind_of_number(value: object) -> InstantKind | None:
    """Return the only unit in which the value is an instant, or None."""
    number = as_number(value)
    if number is None:
        return None
    return next((kind for kind, window in WINDOWS.items() if window.holds(number)), None)


def kind_of_numbers(samples: list[object]) -> InstantKind:
    """Return the common unit of the samples, or UNKNOWN."""
    kinds = {kind for sample in samples if (kind := kind_of_number(sample)) is not None}
    return kinds.pop() if len(kinds) == 1 else InstantKind.UNKNOWN


def unit_problem(samples: list[object], declared: InstantKind | None) -> str | None:
    """Return why the samples do not fit the declared unit, or the unit that they suggest; None if they do."""
    examples = {kind: sample for sample in samples if (kind := kind_of_number(sample)) is not None}
    fitting = [kind for sample in samples if (kind := kind_of_number(sample)) is not None]
    strange = [sample for sample in samples if as_number(sample) is None]
    if strange and not fitting:
        return f"holds {strange[0]!r}, which is not a number"
    if declared is not None:
        best = max(examples, key=fitting.count, default=declared)
        if fitting.count(best) > fitting.count(declared):
            return f"holds {examples[best]}, which looks like {best.value}, not {declared.value}"
    elif len(examples) > 1:
        return f"holds {' and '.join(f'{value} ({kind.value})' for kind, value in examples.items())}"
    elif not examples and (odd := [sample for sample in samples if not is_placeholder(sample)]):
        return f"holds {odd[0]}, which is not an instant between 1990 and 2100 in any unit"
    return None
