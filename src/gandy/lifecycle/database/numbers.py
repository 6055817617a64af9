"""Instants that are stored as numbers, and the encoding of key values."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Numeric,
    String,
    and_,
    cast,
    func,
    literal,
    not_,
    or_,
    type_coerce,
)

if TYPE_CHECKING:
    from collections.abc import Callable


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime(1990, 1, 1, tzinfo=UTC), datetime(2101, 1, 1, tzinfo=UTC)
_IMPOSSIBLE_DAYS = (230, 231, 431, 631, 931, 1131)
_LEAP_DAY, _NO_LEAP_YEAR = 229, 2100_0000
# Values that applications store for "never" or "not yet".
_PLACEHOLDERS = {0, -1, 2**31 - 1, 2**32 - 1, 2**53 - 1, 2**63 - 1, -(2**31), -(2**63), 99991231}


@dataclass(frozen=True, slots=True)
class Window:
    """The range of instants from 1990 to 2100 in one unit; `per_second` is None for days as YYYYMMDD."""

    low: int
    high: int
    per_second: int | None

    def number(self, instant: datetime) -> int:
        """Return the last value of the unit that has fully passed at the instant."""
        if self.per_second is None:
            return _day_number(instant.astimezone(UTC).date() - timedelta(days=1))
        microseconds = (instant - EPOCH) // timedelta(microseconds=1)
        return microseconds * self.per_second // 1_000_000

    def holds(self, value: float | Decimal) -> bool:
        """Whether the value is an instant of this unit."""
        if isinstance(value, Decimal) and not value.is_finite():
            return False
        if not self.low <= value <= self.high:
            return False
        return self.per_second is not None or _read_day(value) is not None

    def read(self, value: float | Decimal) -> datetime | None:
        """Convert the value to an instant; None outside the window."""
        if not self.holds(value):
            return None
        if self.per_second is None:
            return _read_day(value)
        microseconds = Decimal(value) * 1_000_000 / self.per_second
        return EPOCH + timedelta(microseconds=int(microseconds))

    def before(self, column: ColumnElement[Any], instant: datetime) -> ColumnElement[bool]:
        """Return a condition: the value is in the window and has fully passed at the instant."""
        bound = min(self.number(instant), self.high)
        within = and_(column >= _whole(self.low), column <= _whole(bound))
        return within if self.per_second is not None else and_(within, _is_day(column))

    def text_before(self, column: ColumnElement[Any], instant: datetime) -> ColumnElement[bool]:
        """The same for digits stored as text: only values with as many digits as today's instants."""
        low = self.low if self.per_second is None else 10 ** (len(str(self.high)) - 1)
        bound = min(self.number(instant), self.high)
        text = type_coerce(column, String)
        if bound < low:
            return and_(text > literal("1"), text < literal("0"))
        return and_(
            text >= literal(str(low)),
            text <= literal(str(bound)),
            func.length(text) == len(str(self.high)),
            not_(text.bool_op("GLOB")(literal("*[^0-9]*"))),
            *(() if self.per_second is not None else (_is_day(cast(text, Integer)),)),
        )

    def below(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return a condition: the value is below the window."""
        return column < _whole(self.low)

    def above(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return a condition: the value is above the window, as are NaN and infinity."""
        return column > _whole(self.high)

    @property
    def has_gaps(self) -> bool:
        """Whether some numbers in the window are not instants: not every YYYYMMDD is a day."""
        return self.per_second is None

    def in_a_gap(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return a condition: the value is in the window but is not an instant."""
        return and_(column >= _whole(self.low), column <= _whole(self.high), not_(_is_day(column)))


def _epochs(per_second: int) -> Window:
    first, last = (int((end - EPOCH).total_seconds()) for end in (_FIRST, _LAST))
    return Window(first * per_second, last * per_second - 1, per_second)


SECONDS = _epochs(1)
MILLISECONDS = _epochs(1_000)
MICROSECONDS = _epochs(1_000_000)
NANOSECONDS = _epochs(1_000_000_000)
DAY_NUMBER = Window(19900101, 21001231, None)


def as_number(value: object) -> float | Decimal | None:
    """Convert a stored number, or digits stored as text; None for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | Decimal):
        return value
    if not isinstance(value, str):
        return None
    try:
        return Decimal(value)
    except InvalidOperation:
        return None


def is_finite(value: object) -> bool:
    """Whether a stored value is a number that is neither an infinity nor NaN."""
    number = as_number(value)
    return number is not None and Decimal(number).is_finite()


def is_placeholder(value: object) -> bool:
    """Whether applications store this number for "never" or "unknown"."""
    number = as_number(value)
    return number is not None and (number in _PLACEHOLDERS or not is_finite(number))


def _whole(value: int) -> ColumnElement[int]:
    """Bind as bigint for any column type: an integer column is compared with the bounds of all units."""
    return literal(value, BigInteger)


def _day_number(day: date) -> int:
    return day.year * 10_000 + day.month * 100 + day.day


def _read_day(value: float | Decimal) -> datetime | None:
    whole = int(value)
    if whole != value:
        return None
    try:
        return datetime(whole // 10_000, whole // 100 % 100, whole % 100, tzinfo=UTC)
    except ValueError:
        return None


def _is_day(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return a condition: the number is a calendar day; of the years from 1990, 2100 is not a leap year."""
    number = cast(column, Numeric(asdecimal=False))
    month_day = number % literal(10_000, Integer)
    years = number - month_day
    return and_(
        month_day.between(101, 1231),
        (number % literal(100, Integer)).between(1, 31),
        month_day.not_in(_IMPOSSIBLE_DAYS),
        or_(month_day != _LEAP_DAY, and_(years % literal(40_000, Integer) == 0, years != _NO_LEAP_YEAR)),
        number == func.round(number),
    )


_READERS: dict[str, Callable[[str], object]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "uuid": UUID,
    "decimal": Decimal,
    "bytes": base64.b64decode,
    "text": str,
}

# A question mark within quotes is not a placeholder.
_MARK = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(\?)""")


def read_text(stored: bytes) -> str:
    """Decode a text of SQLite, which may contain any bytes: invalid UTF-8 becomes lone surrogates."""
    return stored.decode(errors="surrogateescape")


def bind_texts(statement: str, parameters: Any) -> tuple[str, Any]:  # noqa: ANN401  # the driver's own
    """Bind texts from `read_text` as they were stored: as bytes that SQLite casts to text."""
    if not isinstance(parameters, tuple) or not any(map(_is_broken, parameters)):
        return statement, parameters
    values = iter(parameters)

    def marked(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return "CAST(? AS TEXT)" if _is_broken(next(values)) else "?"

    return _MARK.sub(marked, statement), tuple(
        value.encode(errors="surrogateescape") if _is_broken(value) else value for value in parameters
    )


def _is_broken(value: object) -> bool:
    if not isinstance(value, str) or value.isascii():
        return False
    return any("\udc80" <= each <= "\udcff" for each in value)


def encode_values(values: tuple[object, ...]) -> str:
    """Encode values so that `decode_values` returns equal values."""
    return json.dumps([_encode(value) for value in values])


def decode_values(text: str) -> tuple[object, ...]:
    """Decode the output of `encode_values`."""
    return tuple(_decode(value) for value in json.loads(text))


def _encode(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind, text = _tagged(value)
    return {kind: text}


def _tagged(value: object) -> tuple[str, str]:
    match value:
        case datetime():
            return "datetime", value.isoformat()
        case date():
            return "date", value.isoformat()
        case UUID():
            return "uuid", str(value)
        case Decimal():
            return "decimal", str(value)
        case bytes() | memoryview():
            return "bytes", base64.b64encode(bytes(value)).decode()
        case _:  # the database can parse its own text form
            return "text", str(value)


def _decode(value: object) -> object:
    """Return an unknown value, written by hand or by another version, unchanged."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    [(kind, text)] = value.items()
    try:
        return _READERS[kind](text)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return value
