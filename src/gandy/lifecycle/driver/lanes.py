"""Lanes of a walk: ties at the edge of a batch, and rows that are inserted again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Connection, and_, delete, func, literal, literal_column, select
from typing_extensions import override

from gandy.errors import RuleRefusedError
from gandy.lifecycle.database.dialect import LockPatience
from gandy.lifecycle.driver.levels import RowKeptError
from gandy.lifecycle.selection.statements import (
    Rows,
    Values,
    count_up_to,
    in_range,
    last_row,
    nth_row,
    of_one_instant,
    rows_of,
)
from gandy.sweep import SweepEnding

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Delete, Row, Select

    from gandy.lifecycle.database.target import TargetSession
    from gandy.lifecycle.driver.shift import Counts, Shift
    from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Selection
    from gandy.sweep import Budget, SweepResult


# PostgreSQL returns addresses in blocks: a result row for each would cost more than the deletes.
BLOCKS_AHEAD = {True: 4_000, False: 20_000}
_LARGEST_BLOCK = {True: 50, False: 1}
# Reading takes no locks, so reading many rows of one instant may take long.
_TO_READ = LockPatience(statement=timedelta(minutes=5))


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The rows of one batch: a range of the order, or addresses if they were read ahead."""

    selection: Selection
    after: Values | None
    end: Values
    is_full: bool
    listed: Rows | None = None

    @property
    def are_dead(self) -> ColumnElement[bool]:
        """The condition that a row is in the batch and dead."""
        if self.listed is None:
            return in_range(self.selection, self.after, self.end)
        return and_(self.listed.are(self.selection.table.clause), self.selection.dead)

    def deletion(self) -> Delete:
        """Delete the rows; the condition is checked again, so that a renewed row survives."""
        return delete(self.selection.table.clause).where(self.are_dead)


@dataclass(frozen=True, slots=True)
class _List:
    """Blocks of rows of one instant that were read ahead, in their order."""

    blocks: list[Row[Any]]  # each: the order's values of its last row, then the addresses
    passed: dict[Values, int]  # number of blocks up to each end
    is_full: bool
    size: int  # of a block, in rows


class Ties:
    """Determines the rows of the next batch of a walk."""

    def __init__(self, session: TargetSession, selection: Selection) -> None:
        self.has_missed = False  # rows moved or became live after they were read ahead
        self._session = session
        self._selection = selection
        self._has_locks = session.dialect.has_row_locks
        self._is_inside = False
        self._is_helpful: bool | None = None
        self._list: _List | None = None

    def listed(self, after: Values | None, limit: int) -> BatchRange | None:
        """Return the next batch if it was read ahead; call this before the batch's transaction begins."""
        if not self._is_inside or after is None or not self._would_help(after):
            return None
        limit = min(limit, rows_of(self._selection.table, has_locks=self._has_locks).most_in_one_statement)
        ahead = self._ahead(after, limit)
        if ahead is None:
            self._is_inside, self._list = False, None
            return None
        known, start = ahead
        return self._stretch(after, known.blocks[start : start + limit // known.size])

    def found(self, connection: Connection, after: Values | None, limit: int) -> BatchRange | None:
        """Find the next batch by the order of the walk."""
        end, is_full = find_end(connection, self._selection, after=after, limit=limit)
        if end is None:
            return None
        self.learn(after, end, is_full=is_full)
        return BatchRange(self._selection, after, end, is_full)

    def learn(self, after: Values | None, end: Values, *, is_full: bool) -> None:
        """Detect a tie: after a full batch within one instant, more rows of it may follow."""
        self._is_inside = is_full and len(end) > 1 and after is not None and after[0] == end[0]

    def settled(self, stretch: BatchRange, rows: int) -> None:
        """Record how many of the rows were deleted or quarantined."""
        if stretch.listed is not None and rows < len(stretch.listed):
            self.has_missed = True

    def _would_help(self, after: Values) -> bool:
        if self._is_helpful is None:
            statement = nth_row(self._selection, after, 1)
            with self._session.reading() as connection:
                access = self._session.dialect.access(connection, statement, self._selection.table)
            self._is_helpful = not access.is_in_order
        return self._is_helpful

    def _ahead(self, after: Values, limit: int) -> tuple[_List, int] | None:
        """Return a list with rows after the cursor, and the number of its blocks before the cursor."""
        known = self._list
        start = None if known is None else known.passed.get(after)
        if known is not None and start is not None and known.size <= limit:
            if start < len(known.blocks):
                return known, start
            if not known.is_full:
                return None
        self._list = known = self._read(after, min(limit, _LARGEST_BLOCK[self._has_locks]))
        return (known, 0) if known.blocks else None

    def _read(self, after: Values, size: int) -> _List:
        most = BLOCKS_AHEAD[self._has_locks]
        selection = self._selection
        if self._has_locks:
            statement = _blocks_ahead(selection, after, size=size, most=most)
        else:
            rows = rows_of(selection.table, has_locks=False)
            statement = of_one_instant(selection, after, rows.columns()).limit(most)
        with self._session.reading() as connection:
            self._session.dialect.begin_batch(connection, _TO_READ)
            blocks = list(connection.execute(statement))
        width = len(self._selection.order)
        passed = {tuple(block[:width]): place for place, block in enumerate(blocks, start=1)}
        return _List(blocks, {after: 0, **passed}, is_full=len(blocks) == most, size=size)

    def _stretch(self, after: Values, blocks: list[Row[Any]]) -> BatchRange:
        width = len(self._selection.order)
        rows = rows_of(self._selection.table, has_locks=self._has_locks)
        if self._has_locks:
            listed = rows.only([_address(text) for block in blocks for text in block[width].split(";")])
        else:
            listed = rows.only([tuple(block[width:]) for block in blocks])
        return BatchRange(self._selection, after, tuple(blocks[-1][:width]), is_full=True, listed=listed)


def find_end(
    connection: Connection, selection: Selection, *, after: Values | None, limit: int
) -> tuple[Values | None, bool]:
    """Return the end of the next batch, and whether the batch is full."""
    found = connection.execute(nth_row(selection, after, limit)).one_or_none()
    if found is not None:
        return tuple(found), True
    found = connection.execute(last_row(selection, after)).one_or_none()
    return (None if found is None else tuple(found)), False


def _blocks_ahead(selection: Selection, after: Values, *, size: int, most: int) -> Select[Any]:
    """Select whole blocks; the order of the walk covers the rest of an instant."""
    table, place = rows_of(selection.table, has_locks=True).columns()
    ahead = of_one_instant(selection, after, (table.concat(place),)).limit(size * most).subquery()
    numbered = select(*ahead.c, (func.row_number().over() - 1).label("gandy_number")).subquery()
    *order, address, number = numbered.c
    last = (func.max(column).filter(number % size == size - 1) for column in order)
    block = number.op("/")(size)
    whole = select(*last, func.string_agg(address, ";")).group_by(block).having(func.count() == size)
    return whole.order_by(block)


def _address(text: str) -> Values:
    table, parenthesis, place = text.partition("(")
    return table, parenthesis + place


_SLACK = 1_000  # rows that others may add meanwhile, on top of as many as there were
_ENDLESS = (
    "{rows:,} rows were deleted, but as many dead rows remain: a trigger may insert a dead row for each "
    "deleted row; triggers: {triggers}"
)


def must_stay_gone(connection: Connection, batch: BatchRange, *, has_locks: bool) -> None:
    """Raise an error if a row of the batch exists again right after its delete."""
    table = batch.selection.table
    if table.standing.delete_triggers and connection.execute(came_back(batch, has_locks=has_locks)).first():
        raise RowKeptError.again(table)


def came_back(batch: BatchRange, *, has_locks: bool) -> Select[Any]:
    """Select a dead row in the batch's range; with concurrent writers, only a row of this transaction."""
    found = select(literal(1)).select_from(batch.selection.table.clause).limit(1)
    if not has_locks:
        return found.where(batch.are_dead)
    is_mine = func.age(literal_column("xmin")) <= 0
    return found.where(in_range(batch.selection, batch.after, batch.end), is_mine)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The limit of one pass over a table whose DELETE triggers may insert rows that are dead already.

    The selection leaves the guards out: deleting a row may free others that waited for it.
    """

    walk: AgeWalk | CapWalk
    selection: Selection
    session: TargetSession
    before: int | None = None  #: matching rows before the pass; None: no trigger fires

    def counted(self) -> Ceiling:
        """Count the rows before the pass, where the table has a DELETE trigger."""
        return replace(self, before=self._count()) if self.walk.table.standing.delete_triggers else self

    def lowered(self, budget: Budget) -> Budget:
        """Lower the budget to the ceiling."""
        most = self._most()
        if most is None or (budget.rows is not None and budget.rows <= most):
            return budget
        return replace(budget, rows=most)

    def judge(self, result: SweepResult[Values]) -> None:
        """Raise if the pass has reached the ceiling, or left as many rows as there were."""
        most = self._most()
        if most is None or not result.rows:
            return
        if result.rows >= most or (result.ending is SweepEnding.EXHAUSTED and self._is_full_again()):
            triggers = ", ".join(trigger.name for trigger in self.walk.table.standing.delete_triggers)
            reason = _ENDLESS.format(rows=result.rows, triggers=triggers)
            raise RuleRefusedError(self.walk.key.table, self.walk.label, reason)

    def _most(self) -> int | None:
        return None if self.before is None else 2 * self.before + _SLACK

    def _is_full_again(self) -> bool:
        return bool(self.before) and self._count() == self.before

    def _count(self) -> int:
        """Count the matching rows, up to the number before the pass."""
        with self.session.reading() as connection:
            count: int = connection.execute(count_up_to(self.selection, self.before)).scalar_one()
        return count


Remember = Callable[[Connection, Values], None]


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A batch that was committed, and where it ended."""

    end: Values | None
    is_full: bool
    rows: int
    counts: Counts
    set_aside: int = 0
    reason: str | None = None
    along: int = 0  # dependent rows that were deleted before their row
    is_past: bool = True  # else the cursor stays where it was


class Lane(Protocol):
    """Runs batches of one selection; `end` is the end of the last attempted batch."""

    end: Values | None

    def advance(self, after: Values | None, limit: int) -> CommittedBatch | None:
        """Delete the next batch in its own transaction; None if no dead row is left."""
        ...

    def peek(self, after: Values | None) -> Values | None:
        """Return the position of the next dead row."""
        ...


class OrdinaryLane(Lane):
    """Statement by statement, on any database, for rules that depend on the row alone."""

    def __init__(self, shift: Shift, selection: Selection, remember: Remember, *, ties: Ties) -> None:
        self.end: Values | None = None
        self._shift = shift
        self._ties = ties
        self._selection = selection
        self._remember = remember

    @override
    def advance(self, after: Values | None, limit: int) -> CommittedBatch | None:
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
        return CommittedBatch(
            batch.end, batch.is_full, rows, {self._shift.label(self._selection.table.name): rows}
        )

    @override
    def peek(self, after: Values | None) -> Values | None:
        with self._shift.session.batch(self._shift.patience) as connection:
            return find_end(connection, self._selection, after=after, limit=1)[0]
