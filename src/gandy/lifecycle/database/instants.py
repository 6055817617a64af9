"""How application tables write instants, and how to compare them with a cutoff."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, assert_never

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    not_,
    or_,
    type_coerce,
)
from sqlalchemy.types import Date, DateTime, TypeEngine

from gandy.lifecycle.contract.rules import Unit
from gandy.lifecycle.database import numbers
from gandy.lifecycle.database.numbers import Window, as_number, is_placeholder

_TEXT = re.compile(r"(\d{4}-\d\d-\d\d)(?:([T ])(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:?\d\d)?)?")
_ANY_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
# PostgreSQL writes instants that Python cannot: infinities, and years before 1 and after 9999.
_READABLE = ("0001-01-01", "9999-12-31")


class Kind(StrEnum):
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
    UNKNOWN = "numbers of an unknown unit"  # nothing is ever before anything


WINDOWS: dict[Kind, Window] = {
    Kind.SECONDS: numbers.SECONDS,
    Kind.MILLISECONDS: numbers.MILLISECONDS,
    Kind.MICROSECONDS: numbers.MICROSECONDS,
    Kind.NANOSECONDS: numbers.NANOSECONDS,
    Kind.DAY_NUMBER: numbers.DAY_NUMBER,
}
_KINDS = {
    Unit.SECONDS: Kind.SECONDS,
    Unit.MILLISECONDS: Kind.MILLISECONDS,
    Unit.MICROSECONDS: Kind.MICROSECONDS,
    Unit.NANOSECONDS: Kind.NANOSECONDS,
    Unit.DAY_NUMBER: Kind.DAY_NUMBER,
}


@dataclass(frozen=True, slots=True)
class Form:
    """How one column writes instants; the separator is that of a text, empty for a date alone."""

    kind: Kind
    separator: str = ""
    is_digits: bool = False  # a number that is stored as a text

    @property
    def window(self) -> Window | None:
        """The values that are instants; None where the form is no number of a known unit."""
        return WINDOWS.get(self.kind)

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers, of a known unit or not."""
        return self.kind in WINDOWS or self.kind is Kind.UNKNOWN


def is_before(column: ColumnElement[object], form: Form, cutoff: datetime) -> ColumnElement[bool]:
    """The column's instant is at or before the cutoff; NULL never is, a doubtful text neither."""
    match form.kind:
        case Kind.ZONED:
            return column <= cutoff
        case Kind.NAIVE:
            return column <= cutoff.astimezone(UTC).replace(tzinfo=None)
        case Kind.DATE:
            return column < cutoff.astimezone(UTC).date()
        case Kind.TEXT:
            return _text_before(column, form, cutoff)
        case Kind.UNKNOWN:
            return and_(column > literal(1, BigInteger), column < literal(0, BigInteger))
        case Kind.SECONDS | Kind.MILLISECONDS | Kind.MICROSECONDS | Kind.NANOSECONDS | Kind.DAY_NUMBER:
            window = WINDOWS[form.kind]
            return window.text_before(column, cutoff) if form.is_digits else window.before(column, cutoff)
        case _:
            assert_never(form.kind)


def readable(column: ColumnElement[object], form: Form) -> ColumnElement[object]:
    """The column as Python can read it: what lies beyond the years 1 to 9999 becomes their bound."""
    types: dict[Kind, TypeEngine[Any]] = {
        Kind.ZONED: DateTime(timezone=True),
        Kind.NAIVE: DateTime(),
        Kind.DATE: Date(),
    }
    if form.kind not in types:
        return column
    early, late = (cast(literal(end), types[form.kind]) for end in _READABLE)
    return case((column < early, early), (column > late, late), else_=column)


def read_instant(value: object, form: Form) -> datetime | None:
    """The instant that a stored value means; None where it means none."""
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

    The guards leave out what does not sort with the rest: numbers, another separator, other offsets.
    """
    at = cutoff.astimezone(UTC)
    text = type_coerce(column, String)
    if not form.separator:
        return and_(text < at.strftime("%Y-%m-%d"), _globs(text, _ANY_DAY))
    zone = func.substr(text, 20)
    just_after = at + timedelta(microseconds=1)
    return and_(
        text < just_after.strftime(f"%Y-%m-%d{form.separator}%H:%M:%S.%f"),
        func.substr(text, 11, 1) == form.separator,
        or_(not_(_globs(zone, "*[-+]*")), _globs(zone, "*+00:00")),
    )


def _globs(column: ColumnElement[str], pattern: str) -> ColumnElement[bool]:
    return column.bool_op("GLOB")(literal(pattern))


def form_of_texts(samples: list[object], column: str) -> Form:
    """The form that all sampled texts share; ValueError where they do not share one in UTC."""
    separators: set[str] = set()
    for sample in samples:
        match = _TEXT.fullmatch(sample) if isinstance(sample, str) else None
        if match is None:
            raise ValueError(f"{column} holds {sample!r}, which is no instant written as text")
        if match[4] not in {None, "Z", "+00:00", "+0000"}:
            raise ValueError(f"{column} holds {sample!r}: an offset other than UTC does not sort as text")
        separators.add(match[2] or "")
    if len(separators) > 1:
        raise ValueError(f"{column} holds instants in more than one form: they do not sort as text")
    return Form(Kind.TEXT, separators.pop() if separators else "T")


def kind_of_unit(unit: Unit | None) -> Kind | None:
    """The kind of number that a declared unit means."""
    return None if unit is None else _KINDS.get(unit)


def kind_of_number(value: object) -> Kind | None:
    """The only unit that the value is an instant of; None where it is one of none."""
    number = as_number(value)
    if number is None:
        return None
    return next((kind for kind, window in WINDOWS.items() if window.holds(number)), None)


def kind_of_numbers(samples: list[object]) -> Kind:
    """The unit that the sampled values have in common, or unknown."""
    kinds = {kind for sample in samples if (kind := kind_of_number(sample)) is not None}
    return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN


def unit_problem(samples: list[object], declared: Kind | None) -> str | None:
    """Why the sampled values cannot be read, in the declared unit or in the one that they show."""
    examples = {kind: sample for sample in samples if (kind := kind_of_number(sample)) is not None}
    fitting = [kind for sample in samples if (kind := kind_of_number(sample)) is not None]
    strange = [sample for sample in samples if as_number(sample) is None]
    if strange and not fitting:
        return f"holds {strange[0]!r}, which is no number"
    if declared is not None:
        best = max(examples, key=fitting.count, default=declared)
        if fitting.count(best) > fitting.count(declared):
            return f"holds {examples[best]}, which looks like {best.value}, not {declared.value}"
    elif len(examples) > 1:
        return f"holds {' and '.join(f'{value} ({kind.value})' for kind, value in examples.items())}"
    elif not examples and (odd := [sample for sample in samples if not is_placeholder(sample)]):
        return f"holds {odd[0]}, which is no instant between 1990 and 2100 in any unit"
    return None
