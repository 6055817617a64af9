"""PostgreSQL: connections from a pool, transactions, and notifications."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from psycopg import AsyncConnection, AsyncTransaction
from psycopg.pq import TransactionStatus

from gandy.errors import DatabaseBusyError, DatabaseFaultError, DatabaseReadOnlyError
from gandy.settings import mask_url
from gandy.store.drivers.database import drive_async
from gandy.store.drivers.migrate import read_state, verify
from gandy.store.drivers.pooler import name_statements, pooler_of
from gandy.store.drivers.postgres_pool import ConnectionPool, Link, ask_if_rested, ask_if_told
from gandy.store.drivers.postgres_values import (
    LOST_STATEMENT,
    keep_json_as_text,
    named_rows,
    run_step_async,
    sql,
    translate,
    translated,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gandy.clock import ManualClock
    from gandy.settings import DatabaseSettings
    from gandy.store.statements import Dialect, Operation, Rows, Step


T = TypeVar("T")
_LISTENS_NOWHERE: Final = (
    "LISTEN does not work through a pooler: falling back to polling; set database.notify_url to a direct "
    "connection"
)
_LISTENS_BY_SESSION: Final = (
    "database.notify_url goes through a pooler: notifications arrive only if it is in session mode"
)


class PostgresDatabase:
    """Gandy's tables in PostgreSQL."""

    dialect: Dialect = "postgres"
    supports_partitions = True

    def __init__(self, settings: DatabaseSettings, *, clock: ManualClock | None = None) -> None:
        self.address = mask_url(settings.url)
        self.clock = clock  #: set by tests only
        self.pooler = pooler_of(settings.url)
        self._settings = settings
        self._connections = ConnectionPool(
            self.connect, most=settings.pool_size, timeout=settings.connect_timeout.total_seconds()
        )

    async def open(self) -> None:
        """Connect and verify the schema; nothing is written."""
        with translated(self.address):
            # As a session: an unreachable server is reported at once, not after the pool's time limit.
            async with self._lent_connection(ask_if_rested, is_session=True) as (connection, _):
                verify(await PostgresCommands(connection, self).run(read_state()), self.dialect)

    async def close(self) -> None:
        """Close every connection of the pool."""
        await self._connections.close()

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        async with self.transaction() as transaction:
            return await transaction.run(operation)

    async def run_apart(self, operation: Operation[T], *, is_session: bool = False) -> T:
        """Run an operation without a transaction around it: each statement commits by itself.

        A session asks no connection that has rested for a sign of life: its loop repeats what fails.
        """
        if self.clock is not None or self.pooler.is_found:  # settings apply per transaction
            return await self.run(operation)
        prepare = ask_if_told if is_session else ask_if_rested
        with translated(self.address):
            async with self._lent_connection(prepare, is_session=is_session) as (connection, _):
                return await PostgresTransaction(connection, self, prepare=is_session or None).run(operation)

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that writes nothing."""
        return await self.run(operation)

    @asynccontextmanager
    async def transaction(self, *, is_session: bool = False) -> AsyncIterator[PostgresTransaction]:
        """Open a transaction for several operations."""
        with translated(self.address):
            async with (
                self._lent_connection(_begin, is_session=is_session) as (connection, block),
                AsyncExitStack() as stack,
            ):
                stack.push_async_exit(block)
                await self.begin(connection)
                yield PostgresTransaction(connection, self, prepare=is_session or None)

    @asynccontextmanager
    async def outside_transactions(self) -> AsyncIterator[PostgresCommands]:
        """Open a connection for commands that cannot run in a transaction, past a pooler if possible."""
        with translated(self.address):
            async with await self.connect(is_direct=self.pooler.is_found) as connection:
                if self.clock is not None:
                    await connection.execute(sql("set_session_clock"), {"now": self.clock.now.isoformat()})
                yield PostgresCommands(connection, self)

    def session(self) -> PostgresSession:
        """Keep a connection for one loop."""
        return PostgresSession(self)

    async def notifications(self) -> AsyncIterator[str]:
        """Yield notifications from a dedicated connection, over `notify_url` if that is set."""
        with translated(self.address):
            async with await self._connect(self._settings.notify_url or self._settings.url) as connection:
                if await self._can_listen(connection):
                    async for payload in self._heard(connection):
                        yield payload
        await asyncio.Event().wait()  # LISTEN is not possible: the caller polls

    async def connect(self, *, is_direct: bool = False) -> Link:
        """Open a configured connection outside the pool; `is_direct` uses `notify_url` if that is set."""
        direct = self._settings.notify_url if is_direct else None
        connection = await self._connect(direct or self._settings.url)
        try:
            await self._configure(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def begin(self, connection: Link) -> None:
        """Apply the settings of a transaction that cannot be kept in the session."""
        if self.pooler.is_found:
            await connection.execute(sql("configure_transaction"))
        if self.clock is not None:
            await connection.execute(sql("set_clock"), {"now": self.clock.now.isoformat()}, prepare=False)

    @asynccontextmanager
    async def _lent_connection(
        self, prepare: Callable[[Link, float], Awaitable[T]], *, is_session: bool = False
    ) -> AsyncIterator[tuple[Link, T]]:
        """Borrow a connection; close it after a fault, since it may lead to a former primary."""
        async with self._connections.lend(prepare, is_session=is_session) as (connection, prepared):
            try:
                yield connection, prepared
            except Exception as error:
                fault = translate(error, self.address) or error
                if isinstance(fault, DatabaseReadOnlyError):
                    self._connections.leave_primary(connection)
                if makes_unusable(fault):
                    await connection.close()
                raise

    async def _configure(self, connection: Link) -> None:
        keep_json_as_text(connection)
        name_statements(connection, self.pooler)
        promised = {"backend": connection.info.backend_pid}
        cursor = await connection.execute(sql("configure_session"), promised)
        for row in await cursor.fetchall():
            self.pooler.look_at(connection, row[0])

    async def _can_listen(self, connection: Link) -> bool:
        """Return whether to listen on a connection; behind a pooler, only if `notify_url` is set."""
        if await self._ask_listener(connection) == connection.info.backend_pid:
            return True
        is_told = self._settings.notify_url is not None
        self.pooler.warn_once(_LISTENS_BY_SESSION if is_told else _LISTENS_NOWHERE)
        return is_told

    async def _heard(self, connection: Link) -> AsyncIterator[str]:
        check_every = self._settings.listen_check_every.total_seconds()
        give_up_after = self._settings.connect_timeout.total_seconds()
        await connection.execute(sql("listen"))
        while True:
            async for notification in connection.notifies(timeout=check_every):
                yield notification.payload
            # A dead peer sends no error to an idle connection: probe it.
            await asyncio.wait_for(self._ask_listener(connection), give_up_after)

    async def _ask_listener(self, connection: Link) -> int:
        """Return the pid of the listening backend; raise if a failover has made it read-only."""
        backend: int
        cursor = await connection.execute(sql("ask_listener"))
        [(backend, is_read_only)] = await cursor.fetchall()
        if is_read_only:
            raise DatabaseReadOnlyError("the listener reconnects to find the primary")
        return backend

    async def _connect(self, url: str) -> Link:
        with translated(self.address):
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

    def __init__(self, connection: Link, database: PostgresDatabase, *, prepare: bool | None = None) -> None:
        """Take `prepare`: True prepares a statement at its first use, None after some uses."""
        self._connection = connection
        self._prepare = prepare
        self._database = database
        self._cursor = connection.cursor(row_factory=named_rows, binary=True)
        self._has_begun = False

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation inside this transaction."""
        with translated(self._database.address):  # a train may keep the error beyond the transaction
            return await drive_async(operation, self._execute)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Roll back only the block if it raises."""
        self._has_begun = True
        with translated(self._database.address):
            async with self._connection.transaction():
                yield

    async def _execute(self, step: Step) -> Rows:
        try:
            rows = await run_step_async(self._cursor, step, prepare=self._prepare)
        except LOST_STATEMENT:
            self._database.pooler.find(is_prepared=True)
            if not await self._starts_again():
                raise
            rows = await run_step_async(self._cursor, step, prepare=self._prepare)
        self._has_begun = True
        return rows

    async def _starts_again(self) -> bool:
        """Restart a transaction that has done nothing yet; return whether the statement can be repeated."""
        if self._connection.info.transaction_status == TransactionStatus.IDLE:
            return True  # no transaction is open
        if self._has_begun:
            return False
        await self._connection.execute(b"ROLLBACK", prepare=False)
        await self._connection.execute(b"BEGIN", prepare=False)
        await self._database.begin(self._connection)
        return True


class PostgresCommands(PostgresTransaction):
    """A connection in autocommit mode: every statement is committed by itself."""

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation; behind a pooler in a transaction, because no session keeps the settings."""
        if not self._database.pooler.is_found:
            return await super().run(operation)
        async with self._connection.transaction():
            await self._database.begin(self._connection)
            return await super().run(operation)

    async def execute(self, command: str) -> None:
        """Run a command that one of the package's own statements has generated."""
        with translated(self._database.address):
            await self._connection.execute(command.encode(), prepare=False)


class PostgresSession:
    """The right of one loop to a connection, however busy the others are."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    @property
    def saves_trips(self) -> bool:
        """Whether statements may run without a transaction, which sets what a pooler or a test needs."""
        return self._database.clock is None and not self._database.pooler.is_found

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction of its own."""
        async with self._database.transaction(is_session=True) as transaction:
            return await transaction.run(operation)

    async def run_apart(self, operation: Operation[T]) -> T:
        """Run an operation without a transaction around it if possible: each statement commits by itself."""
        if not self.saves_trips:
            return await self.run(operation)
        return await self._database.run_apart(operation, is_session=True)

    async def close(self) -> None:
        """Do nothing: the connection belongs to the database."""


async def _begin(connection: Link, _rested: float) -> AsyncTransaction:
    """Begin a transaction: if this fails, the connection is broken, and nothing is lost."""
    return await AsyncTransaction(connection).__aenter__()


def makes_unusable(error: BaseException) -> bool:
    """Return whether an error makes a connection unusable: broken, or to a former primary."""
    return isinstance(error, DatabaseFaultError) and not isinstance(error, DatabaseBusyError)
