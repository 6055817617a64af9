"""A connection for a thread of its own: what must go on while the event loop is busy."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg
from psycopg.rows import namedtuple_row

from gandy.store.drivers import sqlite
from gandy.store.drivers.driving import drive
from gandy.store.drivers.postgres import sql
from gandy.store.drivers.postgres_binding import bind
from gandy.store.drivers.urls import dialect_of, sqlite_path

if TYPE_CHECKING:
    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings
    from gandy.store.statements import Operation, Rows, Step

T = TypeVar("T")


class ThreadLink(Protocol):
    """Runs operations in the calling thread; after a fault the next call connects anew."""

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
        self._connection: psycopg.Connection[Any] | None = None

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        connection = self._live_connection()
        with connection.transaction(), connection.cursor(row_factory=namedtuple_row) as cursor:
            if self._clock is not None:
                cursor.execute(sql("set_clock"), {"now": self._clock.now.isoformat()})

            def execute(step: Step) -> Rows:
                cursor.execute(sql(step.name), bind(step))
                return cursor.fetchall() if cursor.description else []

            return drive(operation, execute)

    def close(self) -> None:
        """Give the connection up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _live_connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed or self._connection.broken:
            seconds = max(1, int(self._settings.connect_timeout.total_seconds()))
            self._connection = psycopg.connect(
                self._settings.url,
                autocommit=True,
                connect_timeout=seconds,
                application_name="gandy lease",
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=seconds * 1000,
            )
        return self._connection


class SqliteLink:
    """A connection of its own to the same file."""

    def __init__(self, settings: DatabaseSettings, clock: ManualClock | None) -> None:
        self._path = sqlite_path(settings.url)
        self._clock = clock
        self._connection: sqlite.Connection | None = None

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        with sqlite.translated(self._path):
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
