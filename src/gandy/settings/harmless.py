"""Text of others for a terminal: nothing in it moves the cursor, hides, or turns the direction of writing."""

from __future__ import annotations

from typing import Final

_LAYOUT: Final = frozenset("\n\t")


def one_line(text: str) -> str:
    """Write every character that is not printable as an escape, line ends included."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def many_lines(text: str) -> str:
    """Do the same for text of several lines, such as a stack trace, whose line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _LAYOUT else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
