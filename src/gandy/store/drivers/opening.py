"""Opening a database by its URL, and blocking connections for threads."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg
from psycopg.rows import namedtuple_row

from gandy.errors import DatabaseFaultError, DatabaseUnreachableError, NoRolesError
from gandy.settings import mask_url
from gandy.store.drivers import sqlite
from gandy.store.drivers.database import dialect_of, drive, sqlite_path
from gandy.store.drivers.grants import find_grants
from gandy.store.drivers.migrate import MigrationResult, SchemaState, read_state
from gandy.store.drivers.pooler import name_statements, pooler_of
from gandy.store.drivers.postgres import is_spoilt
from gandy.store.drivers.postgres_values import run_step, sql, translated
from gandy.store.drivers.sqlite import SqliteDatabase
from gandy.store.drivers.sqlite_values import translated as translated_sqlite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings
    from gandy.store.drivers.database import Database
    from gandy.store.drivers.grants import Grants
    from gandy.store.statements import Operation


T = TypeVar("T")


def open_database(settings: DatabaseSettings, *, clock: ManualClock | None = None) -> Database:
    """Create the driver for a URL; it does not connect yet."""
    if dialect_of(settings.url) == "postgres":
        from gandy.store.drivers.postgres import PostgresDatabase  # noqa: PLC0415 see above

        return PostgresDatabase(settings, clock=clock)
    return SqliteDatabase(settings, clock=clock)


def migrate(url: str) -> MigrationResult:
    """Bring a database's schema up to date; safe to run on two servers at once."""
    if dialect_of(url) == "sqlite":
        return _on_sqlite(url, sqlite.migrate)
    from gandy.store.drivers.postgres_direct import migrate_postgres  # noqa: PLC0415 see above

    return migrate_postgres(url)


def schema_state(url: str) -> SchemaState:
    """Read the schema version of a database; nothing is written."""
    if dialect_of(url) == "sqlite":
        if not _is_there(sqlite_path(url)):
            return SchemaState(0, 0)
        return _on_sqlite(url, lambda connection: sqlite.run_on(connection, read_state()))
    from gandy.store.drivers.postgres_direct import drive_postgres  # noqa: PLC0415 see above

    return drive_postgres(url, read_state())


def grants_for(url: str, role: str) -> Grants:
    """Return the grants that a role needs on a PostgreSQL database; nothing is granted."""
    if dialect_of(url) == "sqlite":
        raise NoRolesError(mask_url(url))
    from gandy.store.drivers.postgres_direct import drive_postgres  # noqa: PLC0415 see above

    return drive_postgres(url, find_grants(role))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # such as a name that is too long
        raise DatabaseUnreachableError(f"sqlite:///{path}", str(error.strerror)) from error


def _on_sqlite(url: str, work: Callable[[sqlite.Connection], T]) -> T:
    path = sqlite_path(url)
    with translated_sqlite(path), closing(sqlite.connect(path)) as connection:
        return work(connection)


class ThreadLink(Protocol):
    """Runs operations in the calling thread; after a fault the next call connects again."""

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def open_link(settings: DatabaseSettings, *, clock: ManualClock | None = None) -> ThreadLink:
    """Create a link to the database of these settings; it connects on first use."""
    if dialect_of(settings.url) == "postgres":
        return PostgresLink(settings, clock)
    return SqliteLink(settings, clock)


class PostgresLink:
    """A blocking psycopg connection."""

    def __init__(self, settings: DatabaseSettings, clock: ManualClock | None) -> None:
        self._settings = settings
        self._clock = clock
        self._address = mask_url(settings.url)
        self._pooler = pooler_of(settings.url)
        self._connection: psycopg.Connection[Any] | None = None

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        try:
            with translated(self._address):
                return self._run(operation)
        except DatabaseFaultError as fault:
            if is_spoilt(fault):
                self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, operation: Operation[T]) -> T:
        connection = self._live_connection()
        with connection.transaction(), connection.cursor(row_factory=namedtuple_row) as cursor:
            if self._pooler.is_found:
                cursor.execute(sql("configure_transaction"))
            if self._clock is not None:
                cursor.execute(sql("set_clock"), {"now": self._clock.now.isoformat()}, prepare=False)
            return drive(operation, lambda step: run_step(cursor, step))

    def _live_connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = self._connect()
            self._configure(self._connection)
        return self._connection

    def _connect(self) -> psycopg.Connection[Any]:
        seconds = max(1, int(self._settings.connect_timeout.total_seconds()))
        return psycopg.connect(
            self._settings.url,
            autocommit=True,
            connect_timeout=seconds,
            application_name="gandy lease",
            prepare_threshold=5 if self._settings.prepared_statements else None,
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=seconds * 1000,
        )

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        name_statements(connection, self._pooler)
        promised = {"backend": connection.info.backend_pid}
        for row in connection.execute(sql("configure_session"), promised).fetchall():
            self._pooler.look_at(connection, row[0])


class SqliteLink:
    """A separate connection to the same file."""

    def __init__(self, settings: DatabaseSettings, clock: ManualClock | None) -> None:
        self._path = sqlite_path(settings.url)
        self._clock = clock
        self._connection: sqlite.Connection | None = None

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        with translated_sqlite(self._path):
            if self._connection is None:
                self._connection = sqlite.connect(self._path, self._clock)
            try:
                return sqlite.run_whole(self._connection, operation, "BEGIN IMMEDIATE")
            except sqlite3.Error:
                self.close()
                raise

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
