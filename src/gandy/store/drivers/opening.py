"""Choosing the driver for a database, and migrating it from the command line.

The driver of PostgreSQL is imported where a URL asks for it: SQLite starts without.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from gandy.errors import DatabaseUnreachableError, NoRolesError
from gandy.settings import mask_url
from gandy.store.drivers import sqlite
from gandy.store.drivers.grants import find_grants
from gandy.store.drivers.migrate import MigrationResult, SchemaState, read_state
from gandy.store.drivers.sqlite import SqliteDatabase
from gandy.store.drivers.sqlite_errors import translated as translated_sqlite
from gandy.store.drivers.urls import dialect_of, sqlite_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings
    from gandy.store.drivers.database import Database
    from gandy.store.drivers.grants import Grants

T = TypeVar("T")


def open_database(settings: DatabaseSettings, *, clock: ManualClock | None = None) -> Database:
    """Make the driver that a URL asks for; nothing is connected yet."""
    if dialect_of(settings.url) == "postgres":
        from gandy.store.drivers.postgres import PostgresDatabase  # noqa: PLC0415 see above

        return PostgresDatabase(settings, clock=clock)
    return SqliteDatabase(settings, clock=clock)


def migrate(url: str) -> MigrationResult:
    """Bring a database's schema up to date; safe when two servers do it at once."""
    if dialect_of(url) == "sqlite":
        return _on_sqlite(url, sqlite.migrate)
    from gandy.store.drivers.postgres_direct import migrate_postgres  # noqa: PLC0415 see above

    return migrate_postgres(url)


def schema_state(url: str) -> SchemaState:
    """Ask how far a database has come; nothing is written."""
    if dialect_of(url) == "sqlite":
        if not _is_there(sqlite_path(url)):
            return SchemaState(0, 0)
        return _on_sqlite(url, lambda connection: sqlite.run_on(connection, read_state()))
    from gandy.store.drivers.postgres_direct import drive_postgres  # noqa: PLC0415 see above

    return drive_postgres(url, read_state())


def grants_for(url: str, role: str) -> Grants:
    """Write what a role has to be granted on a PostgreSQL database; nothing is granted."""
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
