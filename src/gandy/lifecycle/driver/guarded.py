"""A batch in which other rows decide too: lock all that would go, ask again, then delete what may still go.

In READ COMMITTED each statement sees what was committed before it. A child's insert takes a lock on its
parent: it waits for the batch, or the batch waits for it and sees it when it asks again. On SQLite the
transaction holds the only write lock from its start; the order of the statements is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import ColumnElement, Connection, select
from typing_extensions import override

from gandy.lifecycle.driver.lanes import Advanced, Lane, Remember
from gandy.lifecycle.driver.levels import (
    BeyondBoundError,
    Level,
    Removal,
    Room,
    lock_levels,
    may_touch,
    narrow_levels,
)
from gandy.lifecycle.driver.returns import must_stay_gone
from gandy.lifecycle.driver.ties import Stretch, Ties, find_end
from gandy.lifecycle.selection.addresses import Rows, found, rows_of

if TYPE_CHECKING:
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import Selection

Again = Callable[[Connection], ColumnElement[bool] | None]
T = TypeVar("T")


class Fitting:
    """How many rows fit into a batch with all that goes with them: it follows what earlier ones took."""

    __slots__ = ("_rows", "bound")

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._rows = bound

    def fit(self, limit: int, attempt: Callable[[int], T]) -> T:
        """Try with fewer rows, each time in a new transaction, until they fit or one alone does not."""
        while True:
            try:
                return attempt(min(limit, self._rows))
            except BeyondBoundError as beyond:
                self._rows = max(1, beyond.parents // 2)
                if beyond.parents <= 1:
                    raise

    def learn(self, rows: int, room: Room) -> None:
        """Take in what these rows took along."""
        if rows:
            self._rows = max(1, min(2 * rows, self.bound * rows // (self.bound - room.left)))


@dataclass(frozen=True, slots=True)
class Doomed:
    """Rows of a batch that are locked and may go, with what hangs on them."""

    rows: Rows
    levels: tuple[Level, ...]
    still: ColumnElement[bool] | None = None  # asked for again where a trigger may change the rows


@dataclass(frozen=True, slots=True)
class Guard:
    """Locks the rows of a batch and asks for them again."""

    selection: Selection
    has_locks: bool
    fitting: Fitting
    again: Again | None = None  # what is asked after the locks; it answers None where no row may go any more

    def doomed(self, connection: Connection, batch: Stretch) -> Doomed:
        """The rows of the batch that may go, as of a statement after their locks."""
        locked = self._lock(connection, batch)
        room = Room(max(0, self.fitting.bound - len(locked)))
        try:
            levels = lock_levels(connection, locked, self.selection.children, room=room)
        except BeyondBoundError as error:
            raise BeyondBoundError(len(locked)) from error
        self.fitting.learn(len(locked), room)
        rows = locked.only(self.still_dead(connection, locked))
        if len(rows) < len(locked):
            levels = narrow_levels(connection, rows, levels)
        return Doomed(rows, levels, self.still(connection, levels))

    def still(self, connection: Connection, levels: tuple[Level, ...]) -> ColumnElement[bool] | None:
        """Which rows are dead all the same; None where no trigger below may change them."""
        if not may_touch(levels, self.selection.table):
            return None
        return self.selection.dead if self.again is None else self.again(connection)

    def lock_one(self, connection: Connection, batch: Stretch) -> Rows:
        """The one row of the batch, locked; none where it is not dead any more."""
        rows = self._lock(connection, batch)
        return rows.only(rows.addresses[:1])

    def _lock(self, connection: Connection, batch: Stretch) -> Rows:
        rows = rows_of(self.selection.table, has_locks=self.has_locks)
        statement = select(*rows.columns()).where(batch.are_dead)
        if batch.listed is None:  # a list has an order of its own, and an index in another must not be read
            statement = statement.order_by(*self.selection.order)
        return rows.only(found(connection, statement.with_for_update(of=self.selection.table.clause)))

    def still_dead(self, connection: Connection, locked: Rows) -> list[Values]:
        """Those of the locked rows that may go, as of this statement."""
        dead = self.selection.dead if self.again is None else self.again(connection)
        if dead is None:
            return []
        still: list[Values] = []
        for part in locked.parts():
            clause = locked.table.clause
            still += found(connection, select(*part.columns()).where(part.are(clause), dead))
        return still


class GuardedLane(Lane):
    """Statement after statement, on any database, with children and with what waits for other rows."""

    def __init__(self, shift: Shift, guard: Guard, remember: Remember, *, ties: Ties) -> None:
        self.end: Values | None = None
        self._shift = shift
        self._ties = ties
        self._guard = guard
        self._remember = remember

    @override
    def advance(self, after: Values | None, limit: int) -> Advanced | None:
        return self._guard.fitting.fit(limit, lambda rows: self._advance(after, rows))

    def _advance(self, after: Values | None, limit: int) -> Advanced | None:
        self.end = None
        batch = self._ties.listed(after, limit)
        with self._shift.session.batch(self._shift.patience) as connection:
            batch = batch or self._ties.found(connection, after, limit)
            if batch is None:
                return None
            self.end = batch.end
            self._shift.hold_on(connection)
            doomed = self._guard.doomed(connection, batch)
            removal = Removal.on(connection, self._shift.label)
            rows = 0
            if doomed.rows.addresses:
                rows = removal.remove(doomed.rows, doomed.levels, still=doomed.still)
            if self._guard.again is None:  # else another bound than that of the batch may have spared a row
                must_stay_gone(connection, batch, has_locks=self._guard.has_locks)
            self._remember(connection, batch.end)
        self._ties.settled(batch, rows)
        return Advanced(batch.end, batch.is_full, rows, removal.gone)

    @override
    def peek(self, after: Values | None) -> Values | None:
        with self._shift.session.batch(self._shift.patience) as connection:
            return find_end(connection, self._guard.selection, after=after, limit=1)[0]
