"""How one batch is carried out: in which statements, over which kind of connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Connection
from typing_extensions import override

from gandy.lifecycle.driver.returns import must_stay_gone
from gandy.lifecycle.driver.ties import find_end
from gandy.lifecycle.selection.statements import Values

if TYPE_CHECKING:
    from gandy.lifecycle.driver.shift import Counts, Shift
    from gandy.lifecycle.driver.ties import Ties
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

    def __init__(self, shift: Shift, selection: Selection, remember: Remember, *, ties: Ties) -> None:
        self.end: Values | None = None
        self._shift = shift
        self._ties = ties
        self._selection = selection
        self._remember = remember

    @override
    def advance(self, after: Values | None, limit: int) -> Advanced | None:
        self.end = None
        batch = self._ties.listed(after, limit)
        with self._shift.session.batch(self._shift.patience) as connection:
            batch = batch or self._ties.found(connection, after, limit)
            if batch is None:
                return None
            self.end = batch.end
            self._shift.hold_on(connection)
            rows = connection.execute(batch.deletion()).rowcount
            must_stay_gone(connection, batch, has_locks=False)
            self._remember(connection, batch.end)
        self._ties.settled(batch, rows)
        return Advanced(batch.end, batch.is_full, rows, {self._shift.label(self._selection.table.name): rows})

    @override
    def peek(self, after: Values | None) -> Values | None:
        with self._shift.session.batch(self._shift.patience) as connection:
            return find_end(connection, self._selection, after=after, limit=1)[0]
