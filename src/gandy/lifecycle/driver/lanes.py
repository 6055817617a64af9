"""How one batch is carried out: in which statements, over which kind of connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Connection
from typing_extensions import override

from gandy.lifecycle.driver.children import settle_children
from gandy.lifecycle.selection.statements import (
    Values,
    delete_keys,
    delete_range,
    keys_in,
    last_row,
    nth_row,
)

if TYPE_CHECKING:
    from gandy.lifecycle.driver.shift import Counts, Shift
    from gandy.lifecycle.selection.walks import Selection

Remember = Callable[[Connection, Values], None]


@dataclass(frozen=True, slots=True)
class Advanced:
    """A batch that was committed, and where it ended."""

    end: Values
    is_full: bool
    rows: int
    counts: Counts


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
    """Statement after statement, on any database, with children."""

    def __init__(self, shift: Shift, selection: Selection, remember: Remember) -> None:
        self.end: Values | None = None
        self._shift = shift
        self._selection = selection
        self._remember = remember

    @override
    def advance(self, after: Values | None, limit: int) -> Advanced | None:
        self.end = None
        with self._shift.session.batch(self._shift.patience) as connection:
            end, is_full = self._find_end(connection, after, limit)
            if end is None:
                return None
            self.end = end
            self._shift.lease.renew(connection)
            rows, counts = self._delete(connection, after, end)
            self._remember(connection, end)
        return Advanced(end, is_full, rows, counts)

    @override
    def peek(self, after: Values | None) -> Values | None:
        with self._shift.session.batch(self._shift.patience) as connection:
            return self._find_end(connection, after, 1)[0]

    def _find_end(
        self, connection: Connection, after: Values | None, limit: int
    ) -> tuple[Values | None, bool]:
        found = connection.execute(nth_row(self._selection, after, limit)).one_or_none()
        if found is not None:
            return tuple(found), True
        found = connection.execute(last_row(self._selection, after)).one_or_none()
        return (None if found is None else tuple(found)), False

    def _delete(self, connection: Connection, after: Values | None, end: Values) -> tuple[int, Counts]:
        mine = self._shift.label(self._selection.table.name)
        if not self._selection.children:
            rows = connection.execute(delete_range(self._selection, after, end)).rowcount
            return rows, {mine: rows}
        # The parents are locked before a child is touched: one renewed meanwhile keeps its children.
        keys = [tuple(row) for row in connection.execute(keys_in(self._selection, after, end))]
        if not keys:
            return 0, {}
        counts = settle_children(connection, self._selection, keys, label=self._shift.label)
        rows = connection.execute(delete_keys(self._selection, keys)).rowcount
        return rows, counts + Counter({mine: rows})
