"""A connection for a thread of its own: what must go on while the event loop is busy."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg
from psycopg.rows import namedtuple_row

from gandy.errors import DatabaseFaultError
from gandy.settings import mask_url
from gandy.store.drivers import sqlite
from gandy.store.drivers.driving import drive
from gandy.store.drivers.pooler import name_statements, pooler_of
from gandy.store.drivers.postgres import is_spoilt
from gandy.store.drivers.postgres_binding import run_step, sql
from gandy.store.drivers.postgres_errors import translated
from gandy.store.drivers.sqlite_errors import translated as translated_sqlite
from gandy.store.drivers.urls import dialect_of, sqlite_path

if TYPE_CHECKING:
    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings
    from gandy.store.statements import Operation

T = TypeVar("T")


class ThreadLink(Protocol):
    """Runs operations in the calling thread; after a fault the next call connects again."""

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...


def open_link(settings: DatabaseSettings, *, clock: ManualClock | None = None) -> ThreadLink:
    """Make a link to the database of these settings; it connects on first use."""
    if dialect_of(settings.url) == "postgres":
        return PostgresLink(settings, clock)
    return SqliteLink(settings, clock)


class PostgresLink:
    """A connection of psycopg's blocking kind."""

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
        """Give the connection up."""
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
    """A connection of its own to the same file."""

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
        """Give the connection up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
