"""How application tables write instants, and how to compare them with a cutoff."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import assert_never

from sqlalchemy import ColumnElement, String, and_, func, literal, not_, or_, type_coerce

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT = re.compile(r"(\d{4}-\d\d-\d\d)(?:([T ])(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:?\d\d)?)?")
# 1980 to 2200: what an application's instants lie in. The windows of two units do not overlap.
_PLAUSIBLE_SECONDS = (315_532_800, 7_258_118_400)


class Kind(StrEnum):
    """The ways to write an instant."""

    ZONED = "timestamp with time zone"
    NAIVE = "timestamp without time zone, read as UTC"
    DATE = "date"
    SECONDS = "seconds since 1970"
    MILLISECONDS = "milliseconds since 1970"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Form:
    """How one column writes instants; the separator is that of a text, empty for a date alone."""

    kind: Kind
    separator: str = ""


def is_before(column: ColumnElement[object], form: Form, cutoff: datetime) -> ColumnElement[bool]:
    """The column's instant is at or before the cutoff; NULL never is, a doubtful text neither."""
    match form.kind:
        case Kind.ZONED:
            return column <= cutoff
        case Kind.NAIVE:
            return column <= cutoff.astimezone(UTC).replace(tzinfo=None)
        case Kind.DATE:
            return column < cutoff.astimezone(UTC).date()
        case Kind.SECONDS | Kind.MILLISECONDS:
            return column <= epoch(cutoff, form.kind)
        case Kind.TEXT:
            return _text_before(column, form, cutoff)
        case _:
            assert_never(form.kind)


def epoch(instant: datetime, kind: Kind) -> int:
    """Whole units since 1970, rounded down."""
    unit = timedelta(milliseconds=1) if kind is Kind.MILLISECONDS else timedelta(seconds=1)
    return (instant - _EPOCH) // unit


def read_instant(value: object, form: Form) -> datetime | None:
    """The instant that a stored value means; None where it means none."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, str) and form.kind in {Kind.SECONDS, Kind.MILLISECONDS}:
        return read_instant(Decimal(value), form)
    if isinstance(value, int | float | Decimal):
        unit = timedelta(milliseconds=1) if form.kind is Kind.MILLISECONDS else timedelta(seconds=1)
        try:
            return _EPOCH + float(value) * unit
        except OverflowError:
            return None
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
        return and_(text < at.strftime("%Y-%m-%d"), func.length(text) == len("2000-01-01"))
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


def unit_problem(samples: list[object], kind: Kind) -> str | None:
    """What is wrong with the declared unit, judged by values in the column."""
    low, high = _PLAUSIBLE_SECONDS
    scales = {Kind.SECONDS: 1, Kind.MILLISECONDS: 1000}
    other = Kind.SECONDS if kind is Kind.MILLISECONDS else Kind.MILLISECONDS
    for sample in samples:
        if not isinstance(sample, int | float | Decimal):
            return f"holds {sample!r}, which is no number"
        if low * scales[other] <= sample < high * scales[other]:
            return f"holds {sample}, which looks like {other.value}, not {kind.value}"
    return None
