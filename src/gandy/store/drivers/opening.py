"""Choosing the driver for a database, and migrating it from the command line."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg
from psycopg.rows import namedtuple_row

from gandy.errors import DatabaseUnreachableError, NoRolesError
from gandy.settings import mask_url
from gandy.store.drivers import sqlite
from gandy.store.drivers.driving import drive
from gandy.store.drivers.grants import find_grants
from gandy.store.drivers.migrate import MigrationResult, SchemaState, apply_pending, read_state
from gandy.store.drivers.postgres import PostgresDatabase
from gandy.store.drivers.postgres_binding import run_step, sql
from gandy.store.drivers.postgres_errors import translated
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
    from gandy.store.statements import Rows, Step

T = TypeVar("T")
Link: TypeAlias = psycopg.Connection[Any]

_CONNECT_SECONDS = 10


def open_database(settings: DatabaseSettings, *, clock: ManualClock | None = None) -> Database:
    """Make the driver that a URL asks for; nothing is connected yet."""
    if dialect_of(settings.url) == "postgres":
        return PostgresDatabase(settings, clock=clock)
    return SqliteDatabase(settings, clock=clock)


def migrate(url: str) -> MigrationResult:
    """Bring a database's schema up to date; safe when two servers do it at once."""
    if dialect_of(url) == "sqlite":
        return _on_sqlite(url, sqlite.migrate)
    return _on_postgres(url, _apply_on_postgres)


def schema_state(url: str) -> SchemaState:
    """Ask how far a database has come; nothing is written."""
    if dialect_of(url) == "sqlite":
        if not _is_there(sqlite_path(url)):
            return SchemaState(0, 0)
        return _on_sqlite(url, lambda connection: sqlite.run_on(connection, read_state()))
    return _on_postgres(url, lambda connection: drive(read_state(), _executor(connection)))


def grants_for(url: str, role: str) -> Grants:
    """Write what a role has to be granted on a PostgreSQL database; nothing is granted."""
    if dialect_of(url) == "sqlite":
        raise NoRolesError(mask_url(url))
    return _on_postgres(url, lambda connection: drive(find_grants(role), _executor(connection)))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # such as a name that is too long
        raise DatabaseUnreachableError(f"sqlite:///{path}", str(error.strerror)) from error


def _on_sqlite(url: str, work: Callable[[sqlite.Connection], T]) -> T:
    path = sqlite_path(url)
    with translated_sqlite(path), closing(sqlite.connect(path)) as connection:
        return work(connection)


def _on_postgres(url: str, work: Callable[[Link], T]) -> T:
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
    with (
        translated(mask_url(url)),
        psycopg.connect(url, connect_timeout=_CONNECT_SECONDS, **options) as connection,
        connection.transaction(),
    ):
        connection.execute(sql("pin_names"))
        return work(connection)


def _apply_on_postgres(connection: Link) -> MigrationResult:
    def apply_script(script: str) -> None:
        connection.execute(script.encode())

    connection.execute(sql("lock_migrations"))
    return drive(apply_pending("postgres", apply_script), _executor(connection))


def _executor(connection: Link) -> Callable[[Step], Rows]:
    return lambda step: run_step(connection.cursor(row_factory=namedtuple_row), step)
