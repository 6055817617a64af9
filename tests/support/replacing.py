"""A deliberate mistake: one piece of a file that stands there once is replaced by another."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "gandy"


class TrialError(Exception):
    """A trial that says nothing about the mistake."""


def replaced(text: str, old: str, new: str, *, file: str) -> str:
    """The text of the file with the mistake in it."""
    count = text.count(old)
    if count != 1:
        raise TrialError(f"{file} holds this piece {count} times, not once: {old!r}")
    return text.replace(old, new)
