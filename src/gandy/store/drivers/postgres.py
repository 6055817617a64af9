"""PostgreSQL through psycopg 3."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import namedtuple_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from gandy.errors import DatabaseBusyError, DatabaseUnreachableError, RowConflictError
from gandy.settings import mask_url
from gandy.store.drivers.driving import drive_async
from gandy.store.drivers.migrate import read_state, verify
from gandy.store.drivers.postgres_binding import bind, keep_json_as_text, read_any_instant
from gandy.store.drivers.postgres_pool import Liveness
from gandy.store.statements import (
    Affected,
    Batch,
    Counted,
    Dialect,
    Operation,
    Rows,
    Step,
    load_statements,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings

T = TypeVar("T")
Link = AsyncConnection[Any]

# transaction rollback (deadlock, serialisation), object not available (lock timeout)
_BUSY_CLASSES = frozenset({"40", "55"})
# what a constraint refuses, or a trigger
_CONFLICTS = (psycopg.errors.IntegrityError, psycopg.errors.DataError, psycopg.errors.RaiseException)


class PostgresDatabase:
    """Gandy's tables in PostgreSQL."""

    dialect: Dialect = "postgres"
    supports_partitions = True

    def __init__(self, settings: DatabaseSettings, *, clock: ManualClock | None = None) -> None:
        self.address = mask_url(settings.url)
        self._settings = settings
        self._clock = clock
        self._pool = AsyncConnectionPool(
            settings.url,
            open=False,
            min_size=1,
            max_size=settings.pool_size,
            timeout=settings.connect_timeout.total_seconds(),
            kwargs=self._connect_options(),
            configure=_configure,
            check=Liveness().check,
            name="gandy",
        )

    async def open(self) -> None:
        """Connect and verify the schema; nothing is written."""
        async with await self._connect(self._settings.url) as connection:
            verify(await PostgresTransaction(connection).run(read_state()), self.dialect)
        await self._pool.open()

    async def close(self) -> None:
        """Close every connection of the pool."""
        await self._pool.close()

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        async with self.transaction() as transaction:
            return await transaction.run(operation)

    async def run_apart(self, operation: Operation[T]) -> T:
        """Run an operation whose statements may each stand for itself: nothing is opened around them."""
        if self._clock is not None:  # it is set for a transaction
            return await self.run(operation)
        with _translated(self.address):
            async with self._pool.connection() as connection:
                return await PostgresTransaction(connection).run(operation)

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that writes nothing."""
        return await self.run(operation)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresTransaction]:
        """Open a transaction for several operations."""
        with _translated(self.address):
            async with self._pool.connection() as connection, connection.transaction():
                await _set_clock(connection, self._clock)
                yield PostgresTransaction(connection)

    @asynccontextmanager
    async def outside_transactions(self) -> AsyncIterator[PostgresCommands]:
        """Open a connection for commands that no transaction may hold."""
        with _translated(self.address):
            async with await self.connect() as connection:
                if self._clock is not None:
                    await connection.execute(sql("set_session_clock"), {"now": self._clock.now.isoformat()})
                yield PostgresCommands(connection, self.address)

    def session(self) -> PostgresSession:
        """Keep a connection for one loop."""
        return PostgresSession(self)

    async def notifications(self) -> AsyncIterator[str]:
        """Listen on a connection of its own, over a URL of its own where a pooler stands between."""
        check_every = self._settings.listen_check_every.total_seconds()
        give_up_after = self._settings.connect_timeout.total_seconds()
        with _translated(self.address):
            async with await self._connect(self._settings.notify_url or self._settings.url) as connection:
                await connection.execute(sql("listen"))
                while True:
                    async for notification in connection.notifies(timeout=check_every):
                        yield notification.payload
                    # A silent peer is found out by asking, not by waiting.
                    await asyncio.wait_for(connection.execute(sql("ping")), give_up_after)

    async def connect(self) -> Link:
        """Open a configured connection outside the pool."""
        connection = await self._connect(self._settings.url)
        await _configure(connection)
        return connection

    @property
    def clock(self) -> ManualClock | None:
        """The manual clock that a test set, if any."""
        return self._clock

    async def _connect(self, url: str) -> Link:
        with _translated(self.address):
            return await AsyncConnection.connect(url, **self._connect_options())

    def _connect_options(self) -> dict[str, Any]:
        return {
            "autocommit": True,
            "connect_timeout": max(1, int(self._settings.connect_timeout.total_seconds())),
            "application_name": "gandy",
            "prepare_threshold": 5 if self._settings.prepared_statements else None,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
        }


class PostgresTransaction:
    """Several operations in one transaction of one connection."""

    def __init__(self, connection: Link) -> None:
        self._connection = connection
        self._cursor = connection.cursor(row_factory=namedtuple_row, binary=True)

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation inside this transaction."""
        return await drive_async(operation, self._execute)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Undo only what happens inside when it raises."""
        try:
            async with self._connection.transaction():
                yield
        except _CONFLICTS as error:
            raise _conflict(error) from error

    async def _execute(self, step: Step) -> Rows:
        if isinstance(step, Batch) and not step.rows:
            return []
        await self._cursor.execute(sql(step.name), bind(step))
        if self._cursor.description:
            return await self._cursor.fetchall()
        return [Affected(self._cursor.rowcount)] if isinstance(step, Counted) else []


class PostgresCommands(PostgresTransaction):
    """A connection in no transaction: every statement is committed by itself."""

    def __init__(self, connection: Link, address: str) -> None:
        super().__init__(connection)
        self._address = address

    async def execute(self, command: str) -> None:
        """Run a command that one of the package's own statements has written."""
        with _translated(self._address):
            await self._connection.execute(command.encode(), prepare=False)


class PostgresSession:
    """A connection kept for one loop; after a fault the next call opens a new one."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._connection: Link | None = None

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        with _translated(self._database.address):
            connection = await self._live_connection()
            async with connection.transaction():
                await _set_clock(connection, self._database.clock)
                return await PostgresTransaction(connection).run(operation)

    async def close(self) -> None:
        """Give the connection up."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _live_connection(self) -> Link:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = await self._database.connect()
        return self._connection


class _translated:  # noqa: N801 - reads as a statement where it is used
    """Turns the driver's errors into Gandy's."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, psycopg.OperationalError) and (error.sqlstate or "")[:2] in _BUSY_CLASSES:
            raise DatabaseBusyError(first_line(error)) from error
        if isinstance(error, (psycopg.OperationalError, PoolTimeout, TimeoutError)):
            raise DatabaseUnreachableError(self._address, first_line(error)) from error
        if isinstance(error, _CONFLICTS):
            raise _conflict(error) from error


def _conflict(error: psycopg.Error) -> RowConflictError:
    return RowConflictError(error.diag.constraint_name or type(error).__name__, first_line(error))


def first_line(error: BaseException) -> str:
    """Keep what a person needs of a driver's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


async def _configure(connection: Link) -> None:
    keep_json_as_text(connection)
    read_any_instant(connection)
    await connection.execute(sql("configure_session"))


async def _set_clock(connection: Link, clock: ManualClock | None) -> None:
    if clock is not None:
        await connection.execute(sql("set_clock"), {"now": clock.now.isoformat()})


def sql(name: str) -> bytes:
    """Find a statement in the package's files, the only source of these texts."""
    return load_statements("postgres")[name].encode()
