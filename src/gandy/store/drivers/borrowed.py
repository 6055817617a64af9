"""Operations on a connection that the caller passes, of any supported library."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, assert_never

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.postgres import register_default_adapters
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row

from gandy.errors import BorrowedConnectionError
from gandy.store.drivers import asyncpg_steps as asyncpg_errors
from gandy.store.drivers import postgres_values as postgres_errors
from gandy.store.drivers import sqlite_values as sqlite_errors
from gandy.store.drivers.asyncpg_steps import AsyncpgLink
from gandy.store.drivers.database import drive, drive_async
from gandy.store.drivers.postgres_values import keep_json_as_text, run_step, run_step_async
from gandy.store.drivers.sqlite_steps import execute_step
from gandy.store.drivers.sqlite_values import StatementClock
from gandy.store.statements import Dialect, Operation, statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import TypeGuard

    from gandy.clock import ManualClock


Given: TypeAlias = Any  # untyped: classes of packages that need not be installed
SyncConnection: TypeAlias = psycopg.Connection[Any] | sqlite3.Connection
AnyConnection: TypeAlias = SyncConnection | psycopg.AsyncConnection[Any] | AsyncpgLink

_KINDS = (
    "pass a psycopg 3 connection (sync or async), an asyncpg connection, a SQLAlchemy Connection or Session "
    "on psycopg, asyncpg or sqlite3, Django's connection, or a sqlite3.Connection"
)
_FOREIGN_DRIVERS = ("psycopg2", "aiosqlite", "pg8000")
_IS_ASYNC = "is async; pass it to `await app.enqueue(...)`"


def find_sync(given: Given) -> SyncConnection:
    """Return the driver's blocking connection of what the caller passed."""
    if _is_a(given, "sqlalchemy.ext.asyncio", "AsyncSession", "AsyncConnection"):
        raise BorrowedConnectionError(_name(given), _IS_ASYNC)
    found = _unwrap(given)
    if isinstance(found, psycopg.AsyncConnection) or _is_asyncpg(found):
        raise BorrowedConnectionError(_name(given), _IS_ASYNC)
    if not isinstance(found, psycopg.Connection | sqlite3.Connection):
        raise BorrowedConnectionError(_name(given), _why_not(found))
    return found


async def find_any(given: Given) -> AnyConnection:
    """Return the driver's connection of what the caller passed, async or blocking."""
    if _is_a(given, "sqlalchemy.ext.asyncio", "AsyncSession"):
        return await find_any(await given.connection())
    if _is_asyncpg(given):
        return AsyncpgLink(given)
    if not _is_a(given, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        found = _unwrap(given)
        return found if isinstance(found, psycopg.AsyncConnection) else find_sync(given)
    if not given.in_transaction():
        await given.begin()
    raw = await given.get_raw_connection()
    if isinstance(raw.driver_connection, psycopg.AsyncConnection):
        return raw.driver_connection
    if _is_asyncpg(raw.driver_connection):
        return await _begun(given, AsyncpgLink(raw.driver_connection))
    raise BorrowedConnectionError(_name(given), _why_not(raw.driver_connection))


async def _begun(given: Given, link: AsyncpgLink) -> AsyncpgLink:
    """Begin the transaction: on asyncpg, SQLAlchemy does so with its first own statement."""
    if not link.connection.is_in_transaction():
        await given.execute(sys.modules["sqlalchemy"].select(1))
    return link


def _unwrap(given: Given) -> object:
    if _is_a(given, "sqlalchemy.orm", "Session", "scoped_session"):
        return _unwrap(given.connection())
    if _is_a(given, "sqlalchemy", "Connection"):
        # SQLAlchemy commits writes on the raw connection only if it has begun a transaction itself.
        if not given.in_transaction():
            given.begin()
        return given.connection.driver_connection
    if _is_django(given):
        given.ensure_connection()
        return given.connection
    return given


def _is_a(given: object, module: str, *names: str) -> bool:
    """Check loaded modules only: a package that was never imported cannot have made the object."""
    loaded: ModuleType | None = sys.modules.get(module)
    kinds = tuple(kind for name in names if isinstance(kind := getattr(loaded, name, None), type))
    return isinstance(given, kinds)


def _is_asyncpg(given: object) -> TypeGuard[Given]:
    return _is_a(given, "asyncpg", "Connection")


def _is_django(given: object) -> TypeGuard[Given]:
    return all(hasattr(given, name) for name in ("ensure_connection", "in_atomic_block", "vendor"))


def _why_not(found: object) -> str:
    driver = type(found).__module__.partition(".")[0]
    if driver in _FOREIGN_DRIVERS:
        return f"is one of {driver}, which Gandy does not support; {_KINDS}"
    return f"is not a connection that Gandy supports; {_KINDS}"


def _name(given: object) -> str:
    return f"<{type(given).__module__}.{type(given).__qualname__}>"


T = TypeVar("T")

_SAVEPOINT = "gandy_borrowed"


class BorrowedConnection:
    """The caller's `connection=`, checked against the database that the application uses."""

    def __init__(self, given: object, dialect: Dialect, *, clock: ManualClock | None = None) -> None:
        self._given = given
        self._dialect = dialect
        self._clock = clock

    def run(self, operation: Operation[T]) -> T:
        """Drive the operation in the caller's thread."""
        return self._run_sync(find_sync(self._given), operation)

    async def run_async(self, operation: Operation[T]) -> T:
        """Drive the operation in the caller's event loop; a sync connection blocks it."""
        connection = await find_any(self._given)
        if isinstance(connection, psycopg.Connection | sqlite3.Connection):
            return self._run_sync(connection, operation)
        self._check(connection)
        if isinstance(connection, AsyncpgLink):
            return await self._run_asyncpg(connection, operation)
        async with _in_step_async(connection):
            with self._explained():
                return await _on_postgres_async(connection, _clocked(operation, self._clock))

    async def _run_asyncpg(self, link: AsyncpgLink, operation: Operation[T]) -> T:
        try:
            return await link.run(_clocked(operation, self._clock))
        except Exception as error:
            if asyncpg_errors.lacks_tables(error):
                raise self._without_tables() from error
            if (refused := asyncpg_errors.refusal(error)) is not None:
                raise refused from error
            raise

    def _run_sync(self, connection: SyncConnection, operation: Operation[T]) -> T:
        self._check(connection)
        with _in_step(connection), self._explained():
            match connection:
                case psycopg.Connection():
                    return _on_postgres(connection, _clocked(operation, self._clock))
                case sqlite3.Connection():
                    return _on_sqlite(connection, operation, self._clock)
                case _:
                    assert_never(connection)

    def _check(self, connection: AnyConnection) -> None:
        found: Dialect = "sqlite" if isinstance(connection, sqlite3.Connection) else "postgres"
        if found != self._dialect:
            problem = (
                f"leads to {_SPOKEN[found]}, but the application's tables are in {_SPOKEN[self._dialect]}"
            )
            raise BorrowedConnectionError(type(self._given).__name__, problem)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Translate errors of an item; a fault stays the driver's error, which the caller's code handles."""
        try:
            yield
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise self._without_tables() from error
        except sqlite3.Error as error:
            if "no such table" in str(error):
                raise self._without_tables() from error
            if sqlite_errors.is_refusal(error):
                raise sqlite_errors.refused(error) from error
            raise
        except (psycopg.Error, UnicodeEncodeError, OverflowError) as error:
            if postgres_errors.is_refusal(error):
                raise postgres_errors.refused(error) from error
            raise

    def _without_tables(self) -> BorrowedConnectionError:
        problem = "its database has no Gandy tables; pass a connection to the application's own database"
        return BorrowedConnectionError(type(self._given).__name__, problem)


_SPOKEN: dict[Dialect, str] = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


class _UsualCursor(psycopg.Cursor[Any]):
    """A cursor with the driver's usual adapters, whatever the caller has registered."""

    @property
    def adapters(self) -> AdaptersMap:
        return _usual_adapters()


class _UsualAsyncCursor(psycopg.AsyncCursor[Any]):
    @property
    def adapters(self) -> AdaptersMap:
        return _usual_adapters()


@cache
def _usual_adapters() -> AdaptersMap:
    usual = AdaptersMap(types=psycopg.adapters.types)
    register_default_adapters(usual)
    keep_json_as_text(usual)
    return usual


def _on_postgres(connection: psycopg.Connection[Any], operation: Operation[T]) -> T:
    # A cursor of our own: the caller's row factory, cursor class and adapters stay as they are.
    cursor = _UsualCursor(connection, row_factory=namedtuple_row)
    with _own_transaction(connection):
        return drive(operation, lambda step: run_step(cursor, step))


async def _on_postgres_async(connection: psycopg.AsyncConnection[Any], operation: Operation[T]) -> T:
    cursor = _UsualAsyncCursor(connection, row_factory=namedtuple_row)
    async with _own_transaction_async(connection):
        return await drive_async(operation, lambda step: run_step_async(cursor, step))


def _on_sqlite(connection: sqlite3.Connection, operation: Operation[T], clock: ManualClock | None) -> T:
    StatementClock(lambda: clock.now if clock else datetime.now(UTC)).register(connection)
    cursor = connection.cursor()
    cursor.row_factory = None  # ignore the caller's row factory
    with _plain_texts(connection), _all_or_nothing(connection):
        return drive(operation, lambda step: execute_step(cursor, step))


@contextmanager
def _plain_texts(connection: sqlite3.Connection) -> Iterator[None]:
    """Read texts as str, whatever the caller reads them as: cursors have no text factory of their own."""
    theirs, connection.text_factory = connection.text_factory, str
    try:
        yield
    finally:
        connection.text_factory = theirs


def _in_step(connection: SyncConnection) -> AbstractContextManager[object]:
    """Wait for the statements of the caller's pipeline, if any: their errors are not ours to explain."""
    if isinstance(connection, psycopg.Connection) and connection.pgconn.pipeline_status:
        return connection.pipeline()
    return nullcontext()


def _in_step_async(connection: psycopg.AsyncConnection[Any]) -> AbstractAsyncContextManager[object]:
    return connection.pipeline() if connection.pgconn.pipeline_status else nullcontext()


def _own_transaction(connection: psycopg.Connection[Any]) -> AbstractContextManager[object]:
    return connection.transaction() if _commits_each_statement(connection) else nullcontext()


def _own_transaction_async(connection: psycopg.AsyncConnection[Any]) -> AbstractAsyncContextManager[object]:
    return connection.transaction() if _commits_each_statement(connection) else nullcontext()


def _commits_each_statement(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


@contextmanager
def _all_or_nothing(connection: sqlite3.Connection) -> Iterator[None]:
    """Use a savepoint inside the caller's transaction, or a transaction of its own if none is open."""
    if connection.in_transaction:
        begin, undo, end = f"SAVEPOINT {_SAVEPOINT}", f"ROLLBACK TO {_SAVEPOINT}", f"RELEASE {_SAVEPOINT}"
    else:
        # IMMEDIATE: a transaction that reads first may be refused when it writes.
        begin, undo, end = "BEGIN IMMEDIATE", "ROLLBACK", "COMMIT" if _is_autocommit(connection) else ""
    connection.execute(begin)
    try:
        yield
    except BaseException:
        connection.execute(undo)
        raise
    if end:
        connection.execute(end)


def _is_autocommit(connection: sqlite3.Connection) -> bool:
    return getattr(connection, "autocommit", None) is True or connection.isolation_level is None


def _clocked(operation: Operation[T], clock: ManualClock | None) -> Operation[T]:
    """Set a test's clock for the transaction."""
    if clock is not None:
        yield statement("set_clock", now=clock.now.isoformat())
    return (yield from operation)
