"""A batch in two round trips to PostgreSQL: find its end; then renew, delete, remember and commit at once."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import BigInteger, Connection, Update, bindparam, exists, literal, select
from sqlalchemy.sql.compiler import SQLCompiler
from typing_extensions import override

from gandy.lifecycle.database.postgres import batch_limits
from gandy.lifecycle.database.values import encode_values
from gandy.lifecycle.driver.lanes import Advanced, Lane
from gandy.lifecycle.selection.statements import Values, delete_range, last_row, row_after
from gandy.lifecycle.state.tables import Instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from sqlalchemy.sql.elements import BindParameter, ClauseElement

    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.walks import Selection
    from gandy.lifecycle.state.lease import Lease

Driver = psycopg.Connection[Any]

# A pooler that hands each transaction to another session knows no prepared statements.
_LOST_STATEMENT = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)


class Prepared:
    """A statement compiled once; each run replaces the values it names."""

    def __init__(self, connection: Connection, statement: ClauseElement) -> None:
        compiled = statement.compile(dialect=connection.dialect)
        assert isinstance(compiled, SQLCompiler)  # noqa: S101  # statements compile to SQL
        state = compiled.construct_expanded_state()
        self._text = state.statement
        self._processors: Mapping[str, Any] = state.processors
        self._values = {name: self._process(name, value) for name, value in state.parameters.items()}

    def run(self, driver: Driver, **values: object) -> psycopg.Cursor[Any]:
        """Send the statement; in a pipeline nothing is waited for."""
        named = {name: self._process(name, value) for name, value in values.items()}
        return driver.execute(self._text.encode(), {**self._values, **named})

    def _process(self, name: str, value: object) -> object:
        processor = self._processors.get(name)
        return value if processor is None or value is None else processor(value)


class PipelinedLane(Lane):
    """Batches without children on PostgreSQL, each in one transaction and two round trips."""

    def __init__(self, shift: Shift, selection: Selection, remember: Update) -> None:
        self.end: Values | None = None
        self._shift = shift
        self._mine = shift.label(selection.table.name)
        connection = shift.session.connection
        self._limits = Prepared(connection, batch_limits(shift.patience))
        batches = _Statements(connection, selection, shift.lease, remember)
        self._first = batches.after(None)
        self._next = batches.after(_slots(selection, "after"))
        with _transaction(connection) as driver:
            driver.prepare_threshold = 0

    @override
    def advance(self, after: Values | None, limit: int) -> Advanced | None:
        try:
            with _transaction(self._shift.session.connection) as driver, _pipeline(driver):
                done = self._advance(driver, after, limit)
        except _LOST_STATEMENT:
            with _transaction(self._shift.session.connection) as driver:
                driver.prepare_threshold = None
            return self.advance(after, limit)
        if done is not None and not done.rows:  # every row of it came back to life, or the lease is lost
            with self._shift.session.batch(self._shift.patience) as connection:
                self._shift.lease.renew(connection)
        return done

    def _advance(self, driver: Driver, after: Values | None, limit: int) -> Advanced | None:
        self.end = None
        span = self._first if after is None else self._next
        self._limits.run(driver)
        end, is_full = span.find_end(driver, after, limit)
        if end is None:
            return None
        self.end = end
        deleted = span.delete(driver, after, end, until=self._shift.lease.expiry())
        driver.commit()
        return Advanced(end, is_full, deleted.rowcount, {self._mine: deleted.rowcount})

    @override
    def peek(self, after: Values | None) -> Values | None:
        span = self._first if after is None else self._next
        with _transaction(self._shift.session.connection) as driver:
            self._limits.run(driver)
            return span.find_end(driver, after, 1)[0]


@dataclass(frozen=True, slots=True)
class _Statements:
    """Builds the statements of a batch."""

    connection: Connection
    selection: Selection
    lease: Lease
    remember: Update

    def after(self, cursor: Values | None) -> _Range:
        """From the head of the index, or after a cursor.

        The delete carries the rest along: the lease is renewed and the cursor written in the same
        statement, and neither a row goes nor the cursor moves unless the lease is still held.
        """
        skip = bindparam("skip", 0, BigInteger)
        renewed = self.lease.renewing(bindparam("until", None, Instant)).returning(literal(1)).cte("renewed")
        is_held = exists(select(1).select_from(renewed))
        remembered = self.remember.where(is_held).returning(literal(1)).cte("remembered")
        delete = delete_range(self.selection, cursor, _slots(self.selection, "end")).where(is_held)
        return _Range(
            nth=Prepared(self.connection, row_after(self.selection, cursor, skip)),
            last=Prepared(self.connection, last_row(self.selection, cursor)),
            deletion=Prepared(self.connection, delete.add_cte(remembered)),
        )


@dataclass(frozen=True, slots=True)
class _Range:
    """The statements of a batch, from the head of the index or after a cursor."""

    nth: Prepared
    last: Prepared
    deletion: Prepared

    def find_end(self, driver: Driver, after: Values | None, limit: int) -> tuple[Values | None, bool]:
        found = self.nth.run(driver, skip=limit - 1, **_named("after", after)).fetchone()
        if found is not None:
            return tuple(found), True
        found = self.last.run(driver, **_named("after", after)).fetchone()
        return (None if found is None else tuple(found)), False

    def delete(
        self, driver: Driver, after: Values | None, end: Values, *, until: datetime
    ) -> psycopg.Cursor[Any]:
        named = {**_named("after", after), **_named("end", end)}
        return self.deletion.run(driver, until=until, cursor_text=encode_values(end), **named)


@contextmanager
def _pipeline(driver: Driver) -> Iterator[None]:
    """A pipeline that is settled before it ends, so that the driver has no error left to complain about."""
    with driver.pipeline() as pipeline:
        try:
            yield
        except psycopg.Error:
            with suppress(psycopg.Error):
                pipeline.sync()
            raise


@contextmanager
def _transaction(connection: Connection) -> Iterator[Driver]:
    """The driver's own connection; what is not committed at the end is rolled back."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101  # only PostgreSQL has a pipeline
    try:
        yield driver
    finally:
        if not driver.closed:
            driver.rollback()


def _slots(selection: Selection, name: str) -> tuple[BindParameter[Any], ...]:
    return tuple(
        bindparam(f"{name}_{place}", None, column.type) for place, column in enumerate(selection.order)
    )


def _named(name: str, values: Values | None) -> dict[str, object]:
    return {} if values is None else {f"{name}_{place}": value for place, value in enumerate(values)}
