"""When a day of history gets a further piece."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

#: This number of further pieces doubles the size of a piece, the next doubles it again: plans look at all.
_PIECES_PER_DOUBLING: Final = 32
_LAST_NUMBER: Final = 32_767


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one day's history, with the log lines of its runs."""

    day: date
    number: int  #: 0: the first of its day
    bytes: int
    is_current: bool  #: runs that end now go there, if they expire on its day
    is_there: bool = True  #: it has its partitions; False: a person has dropped them

    @property
    def leaves(self) -> tuple[str, str]:
        """Its partitions."""
        suffix = f"_{self.number}" if self.number else ""
        return f"history_{self.day:%Y%m%d}{suffix}", f"log_{self.day:%Y%m%d}{suffix}"


@dataclass(frozen=True, slots=True)
class PieceStep:
    """What to do for a day: create a piece, or let ended runs go into the one that was created before."""

    day: date
    number: int
    is_created: bool


def piece_limit(piece_bytes: int, pieces: Iterable[Piece]) -> int:
    """Return the size at which a piece is closed."""
    further = sum(piece.number > 0 for piece in pieces)
    return piece_bytes << further // _PIECES_PER_DOUBLING


def next_steps(pieces: Sequence[Piece], piece_bytes: int, today: date) -> list[PieceStep]:
    """Return the steps of one cycle, at most one for each day.

    Runs go into a piece one cycle after its creation: by then, no statement runs that does not know it.
    """
    limit = piece_limit(piece_bytes, pieces)
    days = groupby(sorted(pieces, key=attrgetter("day", "number")), key=attrgetter("day"))
    steps = (_step(list(parts), limit) for day, parts in days if day >= today)
    return [step for step in steps if step is not None]


def _step(parts: Sequence[Piece], limit: int) -> PieceStep | None:
    newest = parts[-1]
    if not newest.is_there:
        return PieceStep(newest.day, newest.number, is_created=False)
    if not newest.is_current:
        return PieceStep(newest.day, newest.number, is_created=True)
    if newest.bytes < limit or newest.number == _LAST_NUMBER:
        return None
    return PieceStep(newest.day, newest.number + 1, is_created=False)


def oversized(pieces: Sequence[Piece], piece_bytes: int) -> list[Piece]:
    """Return the current pieces of more than twice the size at which they should have been closed."""
    limit = 2 * piece_limit(piece_bytes, pieces)
    return [piece for piece in pieces if piece.is_current and piece.bytes > limit]
