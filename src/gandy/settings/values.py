"""Durations and names: their format, and which are allowed."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from gandy.errors import DurationFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LONGEST_NUMBER = 20
_MICROSECOND = timedelta(microseconds=1)
#: From the longest to the shortest, which is the order in a text.
_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": _MICROSECOND,
}
_SHAPE = re.compile("".join(rf"(?:([0-9]+)\s*{unit}\s*)?" for unit in _UNITS))


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `1h30m`; the longest unit comes first, and every number needs a unit."""
    stripped = text.strip()
    match = _SHAPE.fullmatch(stripped)
    if not stripped or match is None:
        raise DurationFormatError(text, _what_is_wrong_with(stripped))
    try:
        return sum(
            (int(count) * span for count, span in zip(match.groups(), _UNITS.values(), strict=True) if count),
            start=timedelta(),
        )
    except (OverflowError, ValueError) as error:
        raise DurationFormatError(text, "is longer than any duration can be") from error


def format_duration(span: timedelta) -> str:
    """Format a duration for `parse_duration` (a negative duration is for display only)."""
    if span < timedelta():
        return f"-{format_duration(-span)}"
    if not span:
        return "0s"
    written = []
    for unit, size in _UNITS.items():
        if unit == "w" and span % size:  # 8d, not 1w1d: whole weeks only
            continue
        count, span = divmod(span, size)
        if count:
            written.append(f"{count}{unit}")
    return "".join(written)


def _what_is_wrong_with(text: str) -> str:
    if re.fullmatch(r"[0-9.]+", text):
        number = text if len(text) <= _LONGEST_NUMBER else "90"
        return f"has no unit; write {number}s or {number}m"
    if text.startswith("-"):
        return "is negative; a duration is zero or more"
    return "is not a duration such as 250ms, 90s, 30m, 1h30m, 7d or 2w"


_LONGEST_SHOWN: Final = 80
LONGEST: Final = 200
#: Letters and marks that are invisible, although Unicode classifies them as visible.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_KINDS: Final = {
    "Cc": "a control character",
    "Cf": "an invisible character, or one that changes the direction of writing",
    "Cn": "a code point that Unicode assigns to no character",
    "Co": "a code point for private use",
    "Cs": "a lone surrogate",
}


def name_fault(value: str) -> str | None:
    """Describe why a text is no valid name; None: it is valid."""
    if value != value.strip():
        return "it begins or ends with white space"
    for character in value:
        if not character.isprintable() or _INVISIBLE.match(character):
            return f"U+{ord(character):04X} is {_kind_of(character)}"
    if not unicodedata.is_normalized("NFC", value):
        normal = unicodedata.normalize("NFC", value)
        return f"it is not in Unicode's normal form NFC, which is {normal!r} ({normal!a})"
    return None


def presentable(text: str) -> str:
    """Make a valid name of a text of the system, such as the host name, by escaping invalid characters."""
    seen = unicodedata.normalize("NFC", text.strip())
    escaped = "".join(
        _escaped(character) if name_fault(f"x{character}x") else character for character in seen
    )
    return escaped[:LONGEST].strip() or "unknown"


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}"


def _kind_of(character: str) -> str:
    if _INVISIBLE.match(character):
        return "an invisible character"
    return _KINDS.get(unicodedata.category(character), "white space other than a space")


def written(value: object) -> str:
    """Return the repr of any value, even if its `__repr__` raises."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - its `__repr__` may raise anything
        return f"a {type(value).__name__}"


def shortened(text: str) -> str:
    """Cut a text that is too long for a message."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def is_storable(value: str) -> bool:
    """Return whether both databases can store a text: neither stores NUL and lone surrogates."""
    return "\x00" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def instant_or_text(value: object) -> object:
    """Read an instant in ISO 8601; return any other value unchanged, to be refused later."""
    try:
        return datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    except ValueError:
        return value


def parsed_or_text(kind: type[float]) -> Callable[[str], object]:
    """Return a reader of numbers; it returns any other text unchanged, to be refused later."""

    def read(value: str) -> object:
        try:
            return kind(value)
        except ValueError:
            return value

    return read


def switch_or_text(value: str) -> object:
    """Read true or false; return any other text unchanged, to be refused later."""
    return {"true": True, "false": False}.get(value.strip().lower(), value)


def span_or_value(value: object) -> object:
    """Read a number as seconds; return any other value unchanged, to be refused later."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        return value


def seconds_or(read: Callable[[str], object]) -> Callable[[object], object]:
    """Return a reader of JSON: a number is seconds, also as text, as which an address has it."""

    def from_json(value: object) -> object:
        if not isinstance(value, str):
            return span_or_value(value)
        number = parsed_or_text(float)(value)
        return read(value) if isinstance(number, str) else span_or_value(number)

    return from_json


def similar_names(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are similar to a mistyped one, ignoring case."""
    folded: dict[str, list[str]] = {}
    for each in names:
        folded.setdefault(each.casefold(), []).append(each)
    return tuple(name for close in get_close_matches(wanted.casefold(), folded) for name in folded[close])
