"""A row with more dependent rows than one batch may contain: these are deleted first, in parts.

Each part is an ordinary batch: the row and all rows of the part are locked and checked again.
The cursor stays before the row until the last part deletes the row itself. If the row may become live
again in between, no part is deleted: the row is set aside.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, func, literal, select, text
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.dialect import DriverFailure
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.driver.lanes import BatchRange, CommittedBatch, find_end
from gandy.lifecycle.driver.levels import (
    BeyondBoundError,
    Level,
    Removal,
    Room,
    RowKeptError,
    lock_levels,
    lock_some,
)
from gandy.lifecycle.driver.singly import TransactionEndedError
from gandy.lifecycle.selection.statements import Rows, parents_of, refers, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gandy.lifecycle.database.facts import TableFacts
    from gandy.lifecycle.driver.ages import Guard
    from gandy.lifecycle.driver.careful import CarefulLane
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Child

_MOST_COUNTED = 1_000_000
WHOLE_BATCHES = 10  # the most batches that a row may span if it may not be deleted in parts
_STUCK = "{rows} rows that refer to it were deleted or set to NULL, but remain; does a trigger keep them?"
_REFUSED = (
    "{rows} rows would be deleted with it, and the limit of one transaction is {bound:,}; they cannot be "
    "deleted before it, as it may become live between two batches, or a trigger may keep it. Give {tables} "
    "a rule of their own that runs first, or raise max of the contract's batch; then: gandy lifecycle "
    "quarantine --release"
)


def may_go_in_parts(walk: AgeWalk | CapWalk) -> bool:
    """Whether a dead row stays dead and is certainly deletable.

    A trigger that may keep a row does so only with the last part, when the earlier parts cannot be restored.
    """
    if _may_keep_rows(walk.table, walk.children):
        return False
    return walk.rule.is_final and not walk.rule.wait_for


def _may_keep_rows(table: TableFacts, children: Sequence[Child]) -> bool:
    if table.may_keep_rows:
        return True
    if any(child.restorers for child in children):
        return True
    going = [child for child in children if child.mode is not ChildMode.SET_NULL]
    if any(child.table.standing.delete_triggers for child in going):  # a trigger may make the row live again
        return True
    return any(_may_keep_rows(child.table, child.children) for child in going)


@dataclass(frozen=True, slots=True)
class Part:
    """Locked rows to delete in one transaction, and whether they are all dependent rows of a row."""

    levels: tuple[Level, ...] = ()
    rows: int = 0
    is_whole: bool = True


def gather(connection: Connection, parents: Rows, children: Sequence[Child], *, room: int) -> Part:
    """Lock dependent rows of the parents, up to `room`; each row only with all its own dependent rows."""
    gathered = Part()
    for child in sorted(children, key=lambda child: child.mode is ChildMode.SET_NULL):
        more = _gather(connection, parents, child, room=room - gathered.rows)
        gathered = Part(gathered.levels + more.levels, gathered.rows + more.rows, more.is_whole)
        if not gathered.is_whole:
            break
    return gathered


def _gather(connection: Connection, parents: Rows, child: Child, *, room: int) -> Part:
    locked = lock_some(connection, child, parents, most=room + 1)
    rows = rows_of(child.table, has_locks=parents.has_locks).only(locked[:room])
    part = Part((Level(child, rows),), len(rows), is_whole=len(locked) <= room)
    is_going = child.mode is not ChildMode.SET_NULL
    return _with_all_below(connection, part, room) if is_going and len(rows) else part


def _with_all_below(connection: Connection, part: Part, room: int) -> Part:
    """Return as many rows as fit with all their dependent rows, or a part of a single row."""
    [level] = part.levels
    count = len(level.rows)
    while True:
        mine, left = level.rows.only(level.rows.addresses[:count]), Room(room - count)
        try:
            below = lock_levels(connection, mine, level.child.children, room=left)
        except BeyondBoundError:
            if count == 1:
                return replace(gather(connection, mine, level.child.children, room=room), is_whole=False)
            count //= 2
        else:
            is_whole = part.is_whole and count == len(level.rows)
            return Part((Level(level.child, mine, below),), room - left.left, is_whole)


class HeavyLane:
    """Batches of one row, or of a part of its dependent rows."""

    def __init__(self, guard: Guard, careful: CarefulLane, *, is_final: bool) -> None:
        self.end: Values | None = None
        self._guard = guard
        self._careful = careful
        self._shift = careful.shift
        self._is_final = is_final  # a dead row stays dead
        self._reached: tuple[Values | None] | None = None

    def is_at(self, after: Values | None) -> bool:
        """Whether the next row after this cursor was found to be heavy."""
        return self._reached == (after,)

    def advance(self, after: Values | None, limit: int) -> CommittedBatch | None:
        """Delete the next row with all dependent rows, or a part of these, in one transaction."""
        try:
            return self._advance(after, limit)
        except TransactionEndedError as ended:
            return self._ended(said(ended.cause))

    def _ended(self, reason: str) -> CommittedBatch:
        """Set the row aside in a new transaction: the first was rolled back."""
        assert self.end is not None  # noqa: S101  # a row of the batch ended it
        self._careful.set_aside(self.end, reason)
        return CommittedBatch(self.end, is_full=True, rows=0, counts={}, set_aside=1, reason=reason)

    def _advance(self, after: Values | None, limit: int) -> CommittedBatch | None:
        self._reached, self.end = (after,), None
        with self._shift.session.batch(self._shift.patience) as connection:
            end, is_full = find_end(connection, self._guard.selection, after=after, limit=1)
            if end is None:
                return None
            self.end = end
            self._shift.hold_on(connection)
            if self._guard.has_locks:  # a deferred check at the commit would fail the whole batch
                connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
            one = BatchRange(self._guard.selection, after, end, is_full)
            row = self._guard.lock_one(connection, one)
            part = gather(connection, row, self._guard.selection.children, room=self._room(limit))
            done = CommittedBatch(end, is_full, 0, {})
            if self._guard.still_dead(connection, row):
                done = self._take(connection, row, part, passed=done, room=self._room(limit))
            if done.is_past:
                self._careful.remember(connection, end)
        return done if done.is_past else replace(done, end=after)

    @property
    def _most(self) -> int:
        return WHOLE_BATCHES * self._guard.fitting.bound

    def _room(self, limit: int) -> int:
        """The most rows of one transaction; several batches if the row may not be deleted in parts."""
        return limit if self._is_final else self._most

    def _take(
        self, connection: Connection, row: Rows, part: Part, *, passed: CommittedBatch, room: int
    ) -> CommittedBatch:
        does_fit = part.is_whole and part.rows < room
        if not does_fit and not self._is_final:
            return self._set_aside(connection, row, passed, reason=self._refusal(connection, row))
        removal = Removal.on(connection, self._shift.label)
        try:
            with _savepoint(connection):
                if does_fit:
                    rows = removal.remove(row, part.levels, still=self._guard.still(connection, part.levels))
                    return replace(passed, rows=rows, counts=removal.gone)
                along = _remove_part(removal, part)
        except (DBAPIError, RowKeptError) as error:
            if (
                isinstance(error, DBAPIError)
                and self._shift.session.dialect.failure(error) is not DriverFailure.ROW
            ):
                raise
            return self._set_aside(connection, row, passed, reason=said(error))
        if not along:
            return self._set_aside(connection, row, passed, reason=_STUCK.format(rows=part.rows))
        return replace(passed, is_full=True, counts=removal.gone, along=along, is_past=False)

    def _set_aside(
        self, connection: Connection, row: Rows, passed: CommittedBatch, *, reason: str
    ) -> CommittedBatch:
        self._careful.quarantine(connection, row, dict.fromkeys(row.addresses, reason))
        return replace(passed, set_aside=len(row), reason=reason)

    def _refusal(self, connection: Connection, row: Rows) -> str:
        children = self._guard.selection.children
        count = 0
        for counting in _counting(children, lambda child: parents_of(child, row)):
            some = counting.limit(_MOST_COUNTED + 1 - count).subquery()
            count += connection.execute(select(func.count()).select_from(some)).scalar_one()
        return _REFUSED.format(
            rows=f"{count:,}" if count <= _MOST_COUNTED else f"more than {_MOST_COUNTED:,}",
            bound=self._most,
            tables=" and ".join(dict.fromkeys(self._shift.label(child.table.name) for child in children)),
        )


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    """Open a savepoint; on SQLite it may not exist at the end, as a trigger can roll everything back."""
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        with connection.begin_nested():
            yield
        return
    connection.exec_driver_sql("SAVEPOINT gandy_part")
    try:
        yield
    except (DBAPIError, RowKeptError) as error:
        if not driver.in_transaction:
            raise TransactionEndedError(error) from error
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT gandy_part")
        raise
    finally:
        if driver.in_transaction:
            connection.exec_driver_sql("RELEASE SAVEPOINT gandy_part")


def _remove_part(removal: Removal, part: Part) -> int:
    """Delete the rows of a part and set its references to NULL; return how many rows changed."""
    let_go = 0
    for level in part.levels:
        if level.child.mode is ChildMode.SET_NULL:
            let_go += removal.cut(level.child, level.rows)
        else:
            removal.remove(level.rows, level.below)
    return let_go + removal.gone.total()


def _counting(children: Sequence[Child], above: Callable[[Child], Select[Any]]) -> Iterator[Select[Any]]:
    """Yield queries with one result row for each dependent row, at any depth."""
    for child in children:
        yield select(literal(1)).select_from(child.table.clause).where(refers(child, above(child)))
        if child.mode is not ChildMode.SET_NULL:
            yield from _counting(child.children, partial(_of_level, child, above))


def _of_level(level: Child, above: Callable[[Child], Select[Any]], child: Child) -> Select[Any]:
    alias = level.table.clause.alias()
    mine = select(*(alias.c[name] for name in child.parent_columns))
    return mine.where(refers(level, above(level), alias))
