"""How one batch is carried out: in which statements, over which kind of connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Connection
from typing_extensions import override

from gandy.lifecycle.selection.statements import Values, delete_range, last_row, nth_row

if TYPE_CHECKING:
    from gandy.lifecycle.driver.shift import Counts, Shift
    from gandy.lifecycle.selection.walks import Selection

Remember = Callable[[Connection, Values], None]


@dataclass(frozen=True, slots=True)
class Advanced:
    """A batch that was committed, and where it ended."""

    end: Values | None
    is_full: bool
    rows: int
    counts: Counts
    set_aside: int = 0
    reason: str | None = None
    along: int = 0  # rows that went before the one that they hang on
    is_past: bool = True  # else the cursor stays where it was


class Lane(Protocol):
    """Carries out batches of one selection; `end` is where the batch tried last would have ended."""

    end: Values | None

    def advance(self, after: Values | None, limit: int) -> Advanced | None:
        """Delete the next batch in one transaction of its own; None where nothing is dead any more."""
        ...

    def peek(self, after: Values | None) -> Values | None:
        """Where the next dead row is."""
        ...


class OrdinaryLane(Lane):
    """Statement after statement, on any database, where the row alone decides."""

    def __init__(self, shift: Shift, selection: Selection, remember: Remember) -> None:
        self.end: Values | None = None
        self._shift = shift
        self._selection = selection
        self._remember = remember

    @override
    def advance(self, after: Values | None, limit: int) -> Advanced | None:
        self.end = None
        with self._shift.session.batch(self._shift.patience) as connection:
            end, is_full = find_end(connection, self._selection, after=after, limit=limit)
            if end is None:
                return None
            self.end = end
            self._shift.lease.renew(connection)
            rows = connection.execute(delete_range(self._selection, after, end)).rowcount
            self._remember(connection, end)
        return Advanced(end, is_full, rows, {self._shift.label(self._selection.table.name): rows})

    @override
    def peek(self, after: Values | None) -> Values | None:
        with self._shift.session.batch(self._shift.patience) as connection:
            return find_end(connection, self._selection, after=after, limit=1)[0]


def find_end(
    connection: Connection, selection: Selection, *, after: Values | None, limit: int
) -> tuple[Values | None, bool]:
    """Where a batch ends, and whether it is full."""
    found = connection.execute(nth_row(selection, after, limit)).one_or_none()
    if found is not None:
        return tuple(found), True
    found = connection.execute(last_row(selection, after)).one_or_none()
    return (None if found is None else tuple(found)), False
