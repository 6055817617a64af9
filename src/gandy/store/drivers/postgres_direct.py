"""Blocking connections to PostgreSQL: for migrations, single operations, and threads such as the lease's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg
from psycopg.rows import namedtuple_row

from gandy.errors import DatabaseFaultError
from gandy.settings import mask_url
from gandy.store.drivers.database import drive
from gandy.store.drivers.migrate import MigrationResult, apply_pending
from gandy.store.drivers.pooler import name_statements, pooler_of
from gandy.store.drivers.postgres import makes_unusable
from gandy.store.drivers.postgres_values import run_step, sql, translated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings
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


def execute_postgres(url: str, commands: Sequence[str]) -> None:
    """Run commands in a transaction that does not wait long for a lock."""

    def execute(connection: Link) -> None:
        connection.execute(sql("configure_transaction"))
        for command in commands:
            connection.execute(command.encode())

    _on_postgres(url, execute)


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
            if makes_unusable(fault):
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
