"""The SQLite dialect: text and numbers instead of timestamps, and one writer at a time."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, column, func, literal, select, table, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import BigInteger, Float, Integer, NullType, Numeric
from typing_extensions import override

from gandy.lifecycle.database.dialect import (
    AccessPath,
    Dialect,
    DriverFailure,
    Layout,
    LockPatience,
    Partition,
    ReplicationLag,
    TableSize,
)
from gandy.lifecycle.database.facts import Catalogue, ColumnFacts, ColumnType, TableFacts, TableName, Wanted
from gandy.lifecycle.database.failures import Explain, KeptRows, original
from gandy.lifecycle.database.instants import (
    Form,
    UnreadableError,
    form_of_texts,
    is_text_instant,
    kind_of_number,
    kind_of_numbers,
    kind_of_unit,
    prevailing,
)
from gandy.lifecycle.database.numbers import as_number, is_finite
from gandy.lifecycle.database.sampling import sample
from gandy.lifecycle.database.sqlite_catalogue import read_catalogue, unchanged
from gandy.lifecycle.database.sqlite_state import MAIN, read_sight

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import ColumnElement, FromClause

    from gandy.lifecycle.contract.fields import Unit
    from gandy.lifecycle.database.state_sight import StateTables

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_PRIMARY_CODE = 0xFF
_STEPS_BETWEEN_LOOKS = 100_000  # of the virtual machine: about a millisecond
_COUNTED_FILE = 256 * 1024**2  # bytes: the tables of a larger file are not counted for a sample
_MADE_BY_ITSELF = "sqlite_autoindex_"
_ROW_COMPARISON = ")>(?"
_ROW_IDS = ("rowid", "_rowid_", "oid")
_MACHINE = platform.node()


class Sqlite(Dialect):
    """SQLite 3.40 and later."""

    name = "sqlite"
    has_row_locks = False
    has_partitions = False
    has_pipeline = False
    only_schema = MAIN

    @override
    def now(self, connection: Connection) -> datetime:
        found = connection.execute(select(func.strftime("%Y-%m-%d %H:%M:%f", "now"))).scalar_one()
        return datetime.fromisoformat(str(found)).replace(tzinfo=UTC)

    @override
    def begin_batch(self, connection: Connection, patience: LockPatience) -> None:
        """Set nothing: the transaction took the only write lock at its start."""

    @override
    def read_only(self, connection: Connection) -> AbstractContextManager[None]:
        """Set nothing: a deferred transaction that only reads does not block a writer."""
        return nullcontext()

    @override
    def autocommit(self, connection: Connection) -> AbstractContextManager[None]:
        """Set nothing: a statement outside a transaction commits by itself."""
        return nullcontext()

    @override
    def instant_in(self, span: timedelta) -> ColumnElement[Any]:
        ahead = func.strftime("%Y-%m-%dT%H:%M:%f", "now", f"{span.total_seconds():+.3f} seconds")
        return ahead.concat("000Z")

    @override
    def serialise_setup(self, connection: Connection) -> None:
        """Take no lock: SQLite allows one writer at a time."""

    @override
    def session(self) -> ColumnElement[str]:
        return literal(f"{_MACHINE}:{os.getpid()}")

    @override
    def is_direct(self, connection: Connection, session: str) -> bool:
        return True

    @override
    def is_gone(self, connection: Connection, session: str) -> bool:
        """Detect only processes of this machine; others may still exist."""
        machine, _, process = session.partition(":")
        if machine != str(_MACHINE):
            return False
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    @override
    def failure(self, error: Exception) -> DriverFailure:
        cause = original(error)
        code = getattr(cause, "sqlite_errorcode", 0) & _PRIMARY_CODE
        if code in _BUSY:
            return DriverFailure.CONTENDED
        return DriverFailure.ROW if isinstance(cause, sqlite3.IntegrityError) else DriverFailure.OTHER

    @override
    def catalogue(self, connection: Connection, wanted: Sequence[Wanted] | None) -> Catalogue:
        return read_catalogue(connection, wanted)

    @override
    def unchanged(self, marks: Mapping[TableName, str]) -> ColumnElement[bool]:
        return unchanged(marks)

    @override
    def keep_tables(self, connection: Connection, tables: Sequence[TableName]) -> None:
        """Take no lock: a batch has the only write lock from its start."""

    @override
    def state_sight(self, connection: Connection, *, is_fresh: bool = True) -> StateTables:
        return read_sight(connection)

    @override
    def stored_type(self, declared: ColumnType) -> ColumnType:
        """Convert nothing: a declared DATETIME may contain text or a number, and is compared as stored."""
        return NullType()

    @override
    def row_identity(self, columns: Collection[str]) -> ColumnFacts | None:
        """Choose a name of the row id that no column has: an ordinary column of that name hides it."""
        taken = {name.lower() for name in columns}
        free = (name for name in _ROW_IDS if name not in taken)
        return next((ColumnFacts(name, NullType(), is_nullable=False) for name in free), None)

    @override
    def form_of(
        self, connection: Connection, table: TableFacts, column: ColumnFacts, *, unit: Unit | None
    ) -> Form:
        """Decide by the column's values, since SQLite does not enforce the declared type."""
        samples = sample(connection, table, column.name)
        numbers = [value for value in samples if is_finite(value)]
        is_digits = 2 * sum(isinstance(value, str) for value in numbers) > len(numbers)
        declared = kind_of_unit(unit)
        if declared is not None:
            if samples and not numbers:
                raise UnreadableError(f"{column.name} holds {samples[0]!r}, so unit = {unit} is wrong")
            return Form(declared, is_digits=is_digits)
        if unit is None and _holds_numbers(samples, column):
            return Form(kind_of_numbers(samples), is_digits=is_digits)
        return form_of_texts(samples, column.name)

    @override
    def access(self, connection: Connection, statement: Select[Any], table: TableFacts) -> AccessPath:
        steps = [str(row.detail) for row in connection.execute(Explain(statement))]
        mine = [step for step in steps if _is_about(step, table.name.name)]
        is_search = bool(mine) and all(step.startswith("SEARCH") for step in mine)
        # SQLite cannot seek by a row comparison that includes the rowid: the plan then lacks the comparison.
        is_in_order = is_search and all(_ROW_COMPARISON in step for step in mine)
        return AccessPath(is_search, _index_of(mine, table), ", ".join(mine), is_in_order)

    @override
    def estimated_rows(self, connection: Connection, table: TableFacts) -> int | None:
        """Give no estimate: figures of ANALYZE may be stale without notice."""
        return None

    @override
    @contextmanager
    def counting(self, connection: Connection, longest: timedelta) -> Iterator[None]:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)  # noqa: S101  # pysqlite
        deadline = time.monotonic() + longest.total_seconds()
        driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)
        try:
            yield
        except DBAPIError as error:
            if getattr(original(error), "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
                raise
            raise TimeoutError from error
        finally:
            driver.set_progress_handler(None, 0)

    @override
    def kept(self, connection: Connection, rows: FromClause, names: Collection[str]) -> FromClause:
        """Store them in a temporary table: SQLite copies a common table expression for every reference."""
        number = connection.info["gandy_kept"] = connection.info.get("gandy_kept", 0) + 1
        columns = [rows.c[name] for name in names]
        place = table(f"gandy_kept_{number}", *(column(each.name, each.type) for each in columns))
        connection.execute(KeptRows(place, select(*columns)))
        return place

    @override
    def size(self, connection: Connection, table: TableFacts) -> TableSize:
        rows = connection.execute(select(func.count()).select_from(table.clause)).scalar_one()
        return TableSize(rows=rows, bytes=_bytes(connection, table.name))

    @override
    def estimate(self, connection: Connection, table: TableFacts) -> TableSize | None:
        size = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        if connection.execute(text(size)).scalar_one() <= _COUNTED_FILE:
            return self.size(connection, table)
        identity = self.row_identity(table.columns)
        if identity is None:
            return None
        rowid: ColumnElement[int] = column(identity.name, Integer)
        span = select(func.max(rowid) - func.min(rowid) + 1).select_from(table.clause)
        try:
            rows = connection.execute(span).scalar_one()
        except DBAPIError:  # a table WITHOUT ROWID
            return None
        return TableSize(rows=int(rows or 0), bytes=None)

    @override
    def pages_read(self, connection: Connection, table: TableName) -> int | None:
        return None

    @override
    def replication_lag(self, connection: Connection) -> ReplicationLag:
        return ReplicationLag()

    @override
    def lock_waiters(self, connection: Connection, table: TableName) -> int:
        return 0

    @override
    def version_of_others(self, connection: Connection) -> int:
        return int(connection.execute(text("PRAGMA data_version")).scalar_one())

    @override
    def partitions(self, connection: Connection, table: TableFacts, column: str) -> Sequence[Partition]:
        return []

    @override
    def layout(self, connection: Connection, table: TableFacts) -> Layout:
        raise NotImplementedError("SQLite has no partitions; the contract was refused before")

    @override
    def what_needs(self, connection: Connection, partition: TableName) -> str | None:
        return None

    @override
    def lock_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        raise NotImplementedError("SQLite has no partitions; the contract was refused before")

    @override
    def drop_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        raise NotImplementedError("SQLite has no partitions; the contract was refused before")

    @override
    def is_checked_singleton(self, connection: Connection, facts: TableFacts, column: str) -> bool:
        found = connection.execute(
            text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name"),
            {"name": facts.name.name},
        )
        declaration = str(found.scalar_one()).casefold()
        return "check" in declaration and column.casefold() in declaration.split("check", 1)[1]


def _holds_numbers(samples: Sequence[object], column: ColumnFacts) -> bool:
    """Whether a column without a unit stores instants as numbers; placeholders count as numbers too."""
    texts = [value for value in samples if is_text_instant(value)]
    numbers = [value for value in samples if kind_of_number(value) is not None]
    if texts or numbers:
        return not prevailing([*texts, *numbers], is_text_instant, column.name)
    if not samples:
        return isinstance(column.type, Integer | BigInteger | Numeric | Float)
    return all(as_number(value) is not None for value in samples)


def _is_about(step: str, table: str) -> bool:
    """Whether a step of a plan reads the table, whose name may contain spaces."""
    for verb in ("SEARCH ", "SCAN "):
        if step.startswith(verb + table):
            rest = step.removeprefix(verb + table)
            return not rest or rest.startswith((" USING ", " AS ", " VIRTUAL "))
    return False


def _index_of(steps: Sequence[str], table: TableFacts) -> str | None:
    """Return the index of a plan step; matched by the table's index names, which may contain spaces."""
    used = next((step.split("INDEX ", 1)[1] for step in steps if "INDEX " in step), None)
    if used is None:
        return None
    names = sorted((index.name for index in table.indexes), key=len, reverse=True)
    of_key = [used.split(" (", 1)[0]] if used.startswith(_MADE_BY_ITSELF) else []
    return next((name for name in [*names, *of_key] if used == name or used.startswith(f"{name} (")), None)


def _bytes(connection: Connection, table: TableName) -> int | None:
    """Size of the table and its indexes, if this build of SQLite has dbstat."""
    try:
        found = connection.execute(
            text(
                "SELECT sum(pgsize) FROM dbstat WHERE name = :name OR name IN"
                " (SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = :name)"
            ),
            {"name": table.name},
        )
    except DBAPIError:
        return None
    return int(found.scalar_one() or 0)
