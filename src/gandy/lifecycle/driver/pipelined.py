"""A batch in two round trips: find its end; then renew the lease, delete, save the cursor, commit."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.sql import Literal
from sqlalchemy import (
    BigInteger,
    Connection,
    String,
    Update,
    and_,
    bindparam,
    delete,
    exists,
    literal,
    select,
)
from typing_extensions import override

from gandy.lifecycle.database.numbers import encode_values
from gandy.lifecycle.database.postgres import batch_limits
from gandy.lifecycle.database.state_sight import compiled
from gandy.lifecycle.driver.lanes import BatchRange, CommittedBatch, Lane, came_back
from gandy.lifecycle.driver.levels import RowKeptError
from gandy.lifecycle.selection.statements import (
    UNTYPED,
    Values,
    in_range,
    last_row,
    places,
    row_after,
    stored_at,
    type_to_bind,
)
from gandy.lifecycle.state.tables import Instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from sqlalchemy.sql.elements import BindParameter, ClauseElement, ColumnElement
    from sqlalchemy.types import TypeEngine

    from gandy.lifecycle.driver.lanes import Ties
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.walks import Selection

Driver = psycopg.Connection[Any]

# A pooler that gives each transaction another session loses prepared statements.
_LOST_STATEMENT = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)


# Prefix of the parameters that each run fills in; no application column leads to such a name.
_SLOT = "gandy_slot_"


class Prepared:
    """A statement compiled once; each run fills its slots.

    Constant values are inlined into the text, so that the generic plan of all runs is made with the
    rule's own values and can use a partial index.
    """

    def __init__(self, connection: Connection, driver: Driver, statement: ClauseElement) -> None:
        state = compiled(connection, statement).construct_expanded_state()
        self._processors: Mapping[str, Any] = state.processors
        written = {name: self._write(driver, name, value) for name, value in state.parameters.items()}
        self._text = (state.statement.replace("%%", "%%%%") % written).encode()

    def run(self, driver: Driver, **values: object) -> psycopg.Cursor[Any]:
        """Send the statement; in a pipeline, do not wait for the result."""
        slots = {f"{_SLOT}{name}": value for name, value in values.items()}
        return driver.execute(self._text, {name: self._process(name, slots[name]) for name in slots})

    def _write(self, driver: Driver, name: str, value: object) -> str:
        if name.startswith(_SLOT):
            return f"%({name})s"
        return Literal(self._process(name, value)).as_string(driver).replace("%", "%%")

    def _process(self, name: str, value: object) -> object:
        processor = self._processors.get(name)
        return value if processor is None or value is None else processor(value)


class PipelinedLane(Lane):
    """Batches on PostgreSQL for rules that depend on the row alone: two round trips each."""

    def __init__(
        self,
        shift: Shift,
        selection: Selection,
        remember: Callable[[ColumnElement[str]], Update],
        *,
        ties: Ties,
    ) -> None:
        self.end: Values | None = None
        self._shift = shift
        self._ties = ties
        self._of_a_list: Prepared | None = None
        self._empty_at: tuple[Values | None] | None = None
        self._table = selection.table
        self._mine = shift.label(selection.table.name)
        connection = shift.session.connection
        with _transaction(connection) as driver:
            driver.prepare_threshold = 0 if shift.lease.is_direct else None
            self._batches = batches = _Statements(
                connection, driver, selection, shift=shift, remember=remember(slot("cursor", String))
            )
            self._limits = batches.prepare(batch_limits(shift.patience))
            self._first = batches.after(None)
            self._next = batches.after(_slots(selection, "after"))

    @override
    def advance(self, after: Values | None, limit: int) -> CommittedBatch | None:
        listed = self._ties.listed(after, limit)
        try:
            with _transaction(self._shift.session.connection) as driver, _pipeline(driver):
                batch = self._advance(driver, after, limit) if listed is None else self._take(driver, listed)
        except _LOST_STATEMENT:
            with _transaction(self._shift.session.connection) as driver:
                driver.prepare_threshold = None
            return self.advance(after, limit)
        if batch is None:
            return None
        rows = batch.deletion.rowcount  # known and committed once the pipeline is synchronised
        if not rows:  # every row became live, the lease is lost, or the grounds have changed
            with self._shift.session.batch(self._shift.patience) as connection:
                self._shift.hold_on(connection)
            if self._empty_at != (after,):  # a change may have been undone: retry the batch once
                self._empty_at = (after,)
                return CommittedBatch(after, is_full=True, rows=0, counts={}, is_past=False)
        if listed is not None:
            self._ties.settled(listed, rows)
        return CommittedBatch(batch.end, batch.is_full, rows, {self._mine: rows})

    def _advance(self, driver: Driver, after: Values | None, limit: int) -> _Batch | None:
        self.end = None
        span = self._first if after is None else self._next
        self._limits.run(driver)
        end, is_full = span.find_end(driver, after, limit)
        if end is None:
            return None
        self.end = end
        self._ties.learn(after, end, is_full=is_full)
        deletion = span.delete(driver, after, end, until=self._shift.lease.expiry())
        self._must_stay_gone(driver, after, end)
        _send_commit(driver)
        return _Batch(end, is_full, deletion)

    def _take(self, driver: Driver, listed: BatchRange) -> _Batch:
        """Delete a batch that was read ahead."""
        assert listed.listed is not None  # noqa: S101  # else there is nothing to take
        self.end = listed.end
        if self._of_a_list is None:
            self._of_a_list = self._batches.of_a_list()
        self._limits.run(driver)
        deletion = self._of_a_list.run(
            driver,
            until=self._shift.lease.expiry(),
            cursor=encode_values(listed.end),
            places=places(listed.listed.addresses),
        )
        self._must_stay_gone(driver, listed.after, listed.end)
        _send_commit(driver)
        return _Batch(listed.end, listed.is_full, deletion)

    def _must_stay_gone(self, driver: Driver, after: Values | None, end: Values) -> None:
        """Check with one more round trip, only if a trigger may insert a row of the batch again."""
        span = self._first if after is None else self._next
        if span.came_back(driver, after, end):
            raise RowKeptError.again(self._table)

    @override
    def peek(self, after: Values | None) -> Values | None:
        span = self._first if after is None else self._next
        with _transaction(self._shift.session.connection) as driver:
            self._limits.run(driver)
            return span.find_end(driver, after, 1)[0]


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that was sent, and its delete, whose row count is still pending."""

    end: Values
    is_full: bool
    deletion: psycopg.Cursor[Any]


@dataclass(frozen=True, slots=True)
class _Statements:
    """Builds the statements of a batch."""

    connection: Connection
    driver: Driver
    selection: Selection
    shift: Shift
    remember: Update

    def prepare(self, statement: ClauseElement) -> Prepared:
        """Compile for this connection."""
        return Prepared(self.connection, self.driver, statement)

    def after(self, cursor: Values | None) -> _Range:
        """Prepare the statements from the head of the index, or after a cursor."""
        end = _slots(self.selection, "end")
        batch = BatchRange(self.selection, cursor, end, is_full=True)
        fires = self.selection.table.standing.delete_triggers
        return _Range(
            nth=self.prepare(row_after(self.selection, cursor, slot("skip", BigInteger))),
            last=self.prepare(last_row(self.selection, cursor)),
            deletion=self._deletion(in_range(self.selection, cursor, end)),
            again=self.prepare(came_back(batch, has_locks=True)) if fires else None,
        )

    def of_a_list(self) -> Prepared:
        """Prepare the delete of rows read ahead; dead rows with the same ctid in other partitions go too."""
        clause = self.selection.table.clause
        return self._deletion(and_(stored_at(clause, slot("places", UNTYPED)), self.selection.dead))

    def _deletion(self, which: ColumnElement[bool]) -> Prepared:
        """Prepare a delete that also renews the lease and saves the cursor, in one statement.

        No row is deleted and the cursor stays unless the lease is still held and the grounds are unchanged.
        The statement checks this after it locked the table, when no key or trigger can be added any more.
        """
        lease, unchanged = self.shift.lease, self.shift.grounds.unchanged
        renewed = lease.renewing(slot("until", Instant), unchanged).returning(literal(1)).cte("renewed")
        is_held = exists(select(1).select_from(renewed))
        remembered = self.remember.where(is_held).returning(literal(1)).cte("remembered")
        return self.prepare(delete(self.selection.table.clause).where(which, is_held).add_cte(remembered))


@dataclass(frozen=True, slots=True)
class _Range:
    """The statements of a batch, from the head of the index or after a cursor."""

    nth: Prepared
    last: Prepared
    deletion: Prepared
    again: Prepared | None = None

    def find_end(self, driver: Driver, after: Values | None, limit: int) -> tuple[Values | None, bool]:
        found = self.nth.run(driver, skip=limit - 1, **_named("after", after)).fetchone()
        if found is not None:
            return tuple(found), True
        found = self.last.run(driver, **_named("after", after)).fetchone()
        return (None if found is None else tuple(found)), False

    def came_back(self, driver: Driver, after: Values | None, end: Values) -> bool:
        """Whether a trigger has inserted a row of the batch again."""
        if self.again is None:
            return False
        named = {**_named("after", after), **_named("end", end)}
        return self.again.run(driver, **named).fetchone() is not None

    def delete(
        self, driver: Driver, after: Values | None, end: Values, *, until: datetime
    ) -> psycopg.Cursor[Any]:
        named = {**_named("after", after), **_named("end", end)}
        return self.deletion.run(driver, until=until, cursor=encode_values(end), **named)


@contextmanager
def _pipeline(driver: Driver) -> Iterator[None]:
    """Open a pipeline; on an error, synchronise it, so that the driver reports no second error."""
    with driver.pipeline() as pipeline:
        try:
            yield
        except psycopg.Error:
            with suppress(psycopg.Error):
                pipeline.sync()
            raise


@contextmanager
def _transaction(connection: Connection) -> Iterator[Driver]:
    """Yield the driver's connection; roll back uncommitted work at the end."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101  # only PostgreSQL has a pipeline
    try:
        yield driver
    finally:
        if not driver.closed:
            driver.rollback()


def _send_commit(driver: Driver) -> None:
    """Send COMMIT with the delete; commit() would cost another round trip."""
    driver.execute("COMMIT", prepare=False)


def slot(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]]) -> BindParameter[Any]:
    """Return a parameter that each run fills in."""
    return bindparam(f"{_SLOT}{name}", None, kind)


def _slots(selection: Selection, name: str) -> tuple[BindParameter[Any], ...]:
    return tuple(
        slot(f"{name}_{place}", type_to_bind(column)) for place, column in enumerate(selection.order)
    )


def _named(name: str, values: Values | None) -> dict[str, object]:
    return {} if values is None else {f"{name}_{place}": value for place, value in enumerate(values)}
