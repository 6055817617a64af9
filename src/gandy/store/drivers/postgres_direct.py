"""Migrations and single operations of PostgreSQL, over a separate blocking connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg
from psycopg.rows import namedtuple_row

from gandy.settings import mask_url
from gandy.store.drivers.database import drive
from gandy.store.drivers.migrate import MigrationResult, apply_pending
from gandy.store.drivers.postgres_values import run_step, sql, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.store.statements import Operation, Rows, Step

T = TypeVar("T")
Link: TypeAlias = psycopg.Connection[Any]

_CONNECT_SECONDS = 10


def migrate_postgres(url: str) -> MigrationResult:
    """Apply the pending migrations; an advisory lock serialises concurrent processes."""
    return _on_postgres(url, _apply_on_postgres)


def drive_postgres(url: str, operation: Operation[T]) -> T:
    """Run an operation in a transaction."""
    return _on_postgres(url, lambda connection: drive(operation, _executor(connection)))


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
