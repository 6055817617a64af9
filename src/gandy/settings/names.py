"""The one rule for names and keys, at every door: a name is what it looks like."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST: Final = 200
#: Letters and marks that show nothing, though Unicode counts them among the visible ones.
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
    """Say what no name may hold; None: it is a good one."""
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
    """Make a name of what the system calls something, such as its host: what no name may hold is escaped."""
    seen = unicodedata.normalize("NFC", text.strip())
    escaped = "".join(
        _escaped(character) if name_fault(f"x{character}x") else character for character in seen
    )
    return escaped[:LONGEST].strip() or "unknown"


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}"


def _kind_of(character: str) -> str:
    if _INVISIBLE.match(character):
        return "a character that shows nothing"
    return _KINDS.get(unicodedata.category(character), "white space other than a space")
