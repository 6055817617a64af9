"""Durations as people write them: 250ms, 90s, 30m, 1h30m, 7d, 2w."""

from __future__ import annotations

import re
from datetime import timedelta

from gandy.errors import DurationFormatError

_LONGEST_NUMBER = 20
_MICROSECOND = timedelta(microseconds=1)
#: From the longest to the shortest: the order in which they are written.
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
    """Read a duration such as `1h30m`; the longest unit comes first, and no unit is guessed."""
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
    """Write a duration so that `parse_duration` reads the same back (a negative one is for display only)."""
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
