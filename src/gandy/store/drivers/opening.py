"""Opening a database by its URL, and blocking connections for threads."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from gandy.errors import DatabaseInUseError, DatabaseUnreachableError, NoRolesError
from gandy.settings import mask_url
from gandy.store.drivers import sqlite
from gandy.store.drivers.database import dialect_of, sqlite_path
from gandy.store.drivers.grants import find_grants
from gandy.store.drivers.migrate import MigrationResult, SchemaState, read_state
from gandy.store.drivers.sqlite import SqliteDatabase
from gandy.store.drivers.sqlite_values import translated as translated_sqlite
from gandy.store.owners import list_owners
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings
    from gandy.store.drivers.database import Database
    from gandy.store.drivers.grants import Grants
    from gandy.store.statements import Operation


T = TypeVar("T")


def open_database(
    settings: DatabaseSettings,
    *,
    clock: ManualClock | None = None,
    patience: float | None = None,
    makes_tables: bool = True,
) -> Database:
    """Create the driver for a URL; it does not connect yet.

    Of a file: the seconds to wait for another process that holds it, and whether to make tables in it.
    """
    if dialect_of(settings.url) == "postgres":
        from gandy.store.drivers.postgres import PostgresDatabase  # noqa: PLC0415 loads the driver

        return PostgresDatabase(settings, clock=clock)
    return SqliteDatabase(settings, clock=clock, patience=patience, makes_tables=makes_tables)


def migrate(url: str) -> MigrationResult:
    """Bring a database's schema up to date; safe to run on two servers at once."""
    if dialect_of(url) == "sqlite":
        return _on_sqlite(url, sqlite.migrate)
    from gandy.store.drivers.postgres_direct import migrate_postgres  # noqa: PLC0415 loads the driver

    return migrate_postgres(url)


def schema_state(url: str) -> SchemaState:
    """Read the schema version of a database; nothing is written."""
    if dialect_of(url) == "sqlite" and not _is_there(sqlite_path(url)):
        return SchemaState(0, 0)
    return _drive(url, read_state())


def grants_for(url: str, role: str) -> Grants:
    """Return the grants that a role needs on a PostgreSQL database; nothing is granted."""
    if dialect_of(url) == "sqlite":
        raise NoRolesError(mask_url(url))
    return _drive(url, find_grants(role))


@contextmanager
def empty_database(url: str) -> Iterator[None]:
    """Make the tables for the block, for a test, and drop them afterwards; tables that are there stay.

    Raise DatabaseInUseError if an application has rows in them.
    """
    before = _drive(url, _list_drops())
    migrate(url)
    if owners := _drive(url, list_owners()):
        raise DatabaseInUseError(mask_url(url), ", ".join(owners))
    made = [command for command in _drive(url, _list_drops()) if command not in before]
    try:
        yield
    finally:
        _execute(url, made)


def _list_drops() -> Operation[tuple[str, ...]]:
    return tuple(row.command for row in (yield statement("list_drops")))


def _drive(url: str, operation: Operation[T]) -> T:
    if dialect_of(url) == "sqlite":
        return _on_sqlite(url, lambda connection: sqlite.run_on(connection, operation))
    from gandy.store.drivers.postgres_direct import drive_postgres  # noqa: PLC0415 loads the driver

    return drive_postgres(url, operation)


def _execute(url: str, commands: Sequence[str]) -> None:
    """Run commands that one of the package's own statements has generated."""
    if dialect_of(url) == "sqlite":
        _on_sqlite(url, lambda connection: sqlite.execute_unenforced(connection, commands))
        return
    from gandy.store.drivers.postgres_direct import execute_postgres  # noqa: PLC0415 loads the driver

    execute_postgres(url, commands)


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
        from gandy.store.drivers.postgres_direct import PostgresLink  # noqa: PLC0415 loads the driver

        return PostgresLink(settings, clock)
    return SqliteLink(settings, clock)


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
