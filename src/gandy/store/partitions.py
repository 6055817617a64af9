"""Partitions of history: the days that have them, the pieces of a day, and the next command to drop one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gandy.rules.pieces import Piece
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, timedelta

    from gandy.rules.pieces import PieceStep
    from gandy.store.statements import Operation

_COUNTED_UP_TO: Final = 10_001


@dataclass(frozen=True, slots=True)
class Horizon:
    """The days that have partitions (`since` inclusive, `until` exclusive), and the current day."""

    since: date
    until: date
    today: date


@dataclass(frozen=True, slots=True)
class Leaf:
    """A partition to be dropped, and the next command towards that."""

    name: str
    parent: Literal["log", "history"]
    day: date
    number: int  #: of its piece
    is_detached: bool
    estimate: int
    command: str

    @property
    def table(self) -> str:
        """The table as operators know it: history is a part of metadata."""
        return "metadata" if self.parent == "history" else self.parent


@dataclass(frozen=True, slots=True)
class HistoryState:
    """The state of the partitions, for a check-up."""

    days_ahead: int
    past_leaves: int  #: partitions of past days
    kept_by_row: int  #: long-kept runs whose day had no partition, pruned row by row; 10,001: many


def read_horizon() -> Operation[Horizon | None]:
    """Read which days have partitions; None if the database has no partitions."""
    rows = yield statement("read_horizon")
    return Horizon(rows[0].since, rows[0].until, rows[0].today) if rows else None


def lock_history(patience: timedelta) -> Operation[bool]:
    """Try the session-level advisory lock on the partitions; False: another server is changing them."""
    yield statement("set_session_lock_timeout", milliseconds=_milliseconds(patience))
    return bool((yield statement("try_lock_history"))[0].is_held)


def close_past_days() -> Operation[None]:
    """Stop assigning runs to past days."""
    yield statement("close_past_days")
    yield statement("forget_past_pieces")


def add_day(day: date, patience: timedelta) -> Operation[None]:
    """Create the partitions of a day, and start assigning runs to it."""
    yield statement("begin_batch", milliseconds=_milliseconds(patience))
    yield statement("add_history_day", day=day)
    yield statement("open_history_day", day=day)


def list_pieces() -> Operation[tuple[Piece, ...]]:
    """List the pieces of history, those that expire first before the others; none without partitions."""
    rows = yield statement("list_pieces")
    return tuple(Piece(row.day, row.number, row.bytes, row.is_current, row.is_there) for row in rows)


def take_step(step: PieceStep, patience: timedelta) -> Operation[None]:
    """Create a piece of a day, or start assigning runs to it."""
    yield statement("begin_batch", milliseconds=_milliseconds(patience))
    name = "open_history_piece" if step.is_created else "add_history_piece"
    yield statement(name, day=step.day, number=step.number)


def find_past_leaves() -> Operation[tuple[Leaf, ...]]:
    """Find the partitions of past days, partly detached ones first."""
    return (yield from _find_leaves(None))


def find_leaves(names: Sequence[str]) -> Operation[tuple[Leaf, ...]]:
    """Find those of these partitions that exist."""
    return (yield from _find_leaves(list(names)))


def _find_leaves(names: list[str] | None) -> Operation[tuple[Leaf, ...]]:
    rows = yield statement("find_leaves", leaves=names)
    return tuple(
        Leaf(row.leaf, row.parent, row.day, row.number, row.is_detached, row.estimate, row.command)
        for row in rows
    )


def count_rows(leaf: Leaf) -> Operation[int]:
    """Return the number of rows of a partition: the planner's estimate, or a count if there is none."""
    if leaf.estimate or leaf.is_detached:
        return leaf.estimate
    name = "count_logs_on" if leaf.parent == "log" else "count_runs_on"
    rows = yield statement(name, day=leaf.day, number=leaf.number)
    counted: int = rows[0].rows
    return counted


def read_history() -> Operation[HistoryState | None]:
    """Read the state of the day partitions; None if the database has no partitions."""
    rows = yield statement("read_history", limit=_COUNTED_UP_TO)
    if not rows:
        return None
    row = rows[0]
    return HistoryState((row.until - row.today).days, row.past_leaves, row.kept_by_row)


def _milliseconds(span: timedelta) -> int:
    return int(span.total_seconds() * 1000)
