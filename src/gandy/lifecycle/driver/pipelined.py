"""A batch in two round trips to PostgreSQL: find its end; then renew, delete, remember and commit at once."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import BigInteger, Connection, Update, bindparam
from sqlalchemy.sql.compiler import SQLCompiler
from typing_extensions import override

from gandy.errors import SweepLeaseLostError
from gandy.lifecycle.database.postgres import batch_limits
from gandy.lifecycle.database.values import encode_values
from gandy.lifecycle.driver.lanes import Advanced, Lane
from gandy.lifecycle.selection.statements import Values, delete_range, last_row, row_after
from gandy.lifecycle.state.tables import Instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
        self._first = _Range(connection, selection, None, lease=shift.lease)
        self._next = _Range(connection, selection, _slots(selection, "after"), lease=shift.lease)
        self._renew = Prepared(connection, shift.lease.renewing(bindparam("until", None, Instant)))
        self._remember = Prepared(connection, remember)
        with _transaction(connection) as driver:
            driver.prepare_threshold = 0

    @override
    def advance(self, after: Values | None, limit: int) -> Advanced | None:
        try:
            with _transaction(self._shift.session.connection) as driver, _pipeline(driver):
                return self._advance(driver, after, limit)
        except _LOST_STATEMENT:
            with _transaction(self._shift.session.connection) as driver:
                driver.prepare_threshold = None
            return self.advance(after, limit)

    def _advance(self, driver: Driver, after: Values | None, limit: int) -> Advanced | None:
        self.end = None
        span = self._first if after is None else self._next
        self._limits.run(driver)
        end, is_full = span.find_end(driver, after, limit)
        if end is None:
            return None
        self.end = end
        renewed = self._renew.run(driver, until=self._shift.lease.expiry())
        deleted = span.delete(driver, after, end)
        self._remember.run(driver, cursor_text=encode_values(end))
        driver.commit()
        if renewed.rowcount == 0:
            raise SweepLeaseLostError(self._shift.lease.scheduler)
        return Advanced(end, is_full, deleted.rowcount, {self._mine: deleted.rowcount})

    @override
    def peek(self, after: Values | None) -> Values | None:
        span = self._first if after is None else self._next
        with _transaction(self._shift.session.connection) as driver:
            self._limits.run(driver)
            return span.find_end(driver, after, 1)[0]


class _Range:
    """The statements of a batch, from the head of the index or after a cursor."""

    def __init__(
        self, connection: Connection, selection: Selection, cursor: Values | None, *, lease: Lease
    ) -> None:
        skip = bindparam("skip", 0, BigInteger)
        end = _slots(selection, "end")
        self._nth = Prepared(connection, row_after(selection, cursor, skip))
        self._last = Prepared(connection, last_row(selection, cursor))
        # Nobody waits for the renewal's answer, so the delete itself asks whether the lease is held.
        self._delete = Prepared(connection, delete_range(selection, cursor, end).where(lease.is_held))

    def find_end(self, driver: Driver, after: Values | None, limit: int) -> tuple[Values | None, bool]:
        found = self._nth.run(driver, skip=limit - 1, **_named("after", after)).fetchone()
        if found is not None:
            return tuple(found), True
        found = self._last.run(driver, **_named("after", after)).fetchone()
        return (None if found is None else tuple(found)), False

    def delete(self, driver: Driver, after: Values | None, end: Values) -> psycopg.Cursor[Any]:
        return self._delete.run(driver, **_named("after", after), **_named("end", end))


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
