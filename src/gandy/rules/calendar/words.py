"""What people may write instead of the five fields, as the fields that every version reads.

Debian's cron has the nicknames and takes both 0 and 7 for Sunday. Ranges that wrap it does not know: here
they go on from the largest value of the field to the smallest, with their step.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gandy.errors import CronExpressionError
from gandy.settings.bounds import LONGEST_EXPRESSION, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
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
    """Write an expression as plain fields: nicknames spelled out, and ranges that wrap cut in two."""
    if not isinstance(expression, str):
        raise CronExpressionError(shown(expression), "is not text")
    if len(expression) > LONGEST_EXPRESSION:
        raise CronExpressionError(f"{expression[:40]}...", f"longer than {LONGEST_EXPRESSION} characters")
    words = expression.split()
    if words and words[0].startswith("@"):
        return _spelled_out(" ".join(words))
    fields = (_SECONDS, *_FIELDS) if len(words) > len(_FIELDS) else _FIELDS
    if len(words) != len(fields):
        return " ".join(words)  # what reads it says what is wrong
    plain = " ".join(_unwrapped(word, field) for word, field in zip(words, fields, strict=True))
    if len(plain) > LONGEST_EXPRESSION:
        problem = f"longer than {LONGEST_EXPRESSION} characters once its ranges that wrap are cut in two"
        raise CronExpressionError(f"{expression[:40]}...", problem)
    return plain


def _spelled_out(word: str) -> str:
    if word.lower() == "@reboot":
        problem = "a schedule follows the clock, not the start of a machine; use schedule_once to run at once"
        raise CronExpressionError(word, problem)
    found = NICKNAMES.get(word.lower())
    if found is None:
        raise CronExpressionError(word, f"is none of {', '.join(NICKNAMES)}")
    return found


def _unwrapped(text: str, field: _Field) -> str:
    return ",".join(_unwrapped_term(term, field) for term in text.split(","))


def _unwrapped_term(term: str, field: _Field) -> str:
    """Cut a range that wraps in two; whatever else it is stays as it is written."""
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
    """Write one range; a step over a single value would reach beyond it."""
    if start + step > end:
        return str(start)
    return f"{start}-{end}" if step == 1 else f"{start}-{end}/{step}"
