"""Protocols of databases, and the loops that drive an operation on one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from gandy.errors import DatabaseUrlError
from gandy.settings.urls import read_url
from gandy.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from gandy.store.drivers.migrate import Migration, SchemaState
    from gandy.store.statements import Dialect, Operation, Rows, Step


T = TypeVar("T")


class Runner(Protocol):
    """Runs an operation; its writes are committed or rolled back together."""

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation to its end and return its result."""
        ...


class Transaction(Runner, Protocol):
    """Several operations that commit together."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """Roll back only the block if it raises."""
        ...


class DatabaseSession(Runner, Protocol):
    """A connection kept for one loop; it reconnects after a database outage."""

    @property
    def saves_trips(self) -> bool:
        """Whether an operation of one statement is sooner done without a transaction around it."""
        ...

    async def run_apart(self, operation: Operation[T]) -> T:
        """Run an operation of which each statement may commit by itself."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class Commands(Runner, Protocol):
    """A connection in autocommit mode: every statement is committed by itself."""

    async def execute(self, command: str) -> None:
        """Run a command that one of the package's own statements has generated."""
        ...


@runtime_checkable
class KeepsDays(Protocol):
    """A database that keeps history in day partitions."""

    def outside_transactions(self) -> AbstractAsyncContextManager[Commands]:
        """Open a connection for commands that cannot run in a transaction."""
        ...


class ReadingRunner(Runner, Protocol):
    """Runs operations, also read-only ones; most of the desk needs no more."""

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that writes nothing."""
        ...


class Database(ReadingRunner, Protocol):
    """One of the two databases that hold Gandy's tables."""

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of its statements."""
        ...

    @property
    def address(self) -> str:
        """Its URL without the password."""
        ...

    @property
    def supports_partitions(self) -> bool:
        """Whether history is deleted by dropping day partitions."""
        ...

    async def open(self) -> None:
        """Connect and verify the schema."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...

    async def run_apart(self, operation: Operation[T]) -> T:
        """Run an operation that needs no transaction: each statement may commit by itself."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction for several operations."""
        ...

    def session(self) -> DatabaseSession:
        """Keep a connection for one loop."""
        ...

    def notifications(self) -> AsyncIterator[str]:
        """Payloads of Gandy's channel, for as long as the caller listens."""
        ...


def drive(operation: Operation[T], execute: Callable[[Step], Rows]) -> T:
    """Run an operation on a blocking connection."""
    try:
        step = next(operation)
        while True:
            step = operation.send(execute(step))
    except StopIteration as ended:
        result: T = ended.value
        return result
    finally:
        operation.close()


async def drive_async(operation: Operation[T], execute: Callable[[Step], Awaitable[Rows]]) -> T:
    """Run an operation on an async connection."""
    try:
        step = next(operation)
        while True:
            step = operation.send(await execute(step))
    except StopIteration as ended:
        result: T = ended.value
        return result
    finally:
        operation.close()


def dialect_of(url: str) -> Dialect:
    """Return the dialect of a URL."""
    found = read_url(url)
    if found.driver is not None:
        raise DatabaseUrlError(found.shown, f"leave out +{found.driver}: Gandy brings its own driver")
    return found.kind


def sqlite_path(url: str) -> Path:
    """Find the file of a SQLite URL: three slashes for a relative path, four for an absolute one."""
    found = read_url(url)
    if found.kind != "sqlite" or not found.database or found.database in {"/", ":memory:"}:
        raise DatabaseUrlError(found.shown, "a SQLite database needs a file, shared by every connection")
    return Path(found.database)


def identity_of(url: str) -> str:
    """Return an identity of a URL's database that does not depend on user, password or spelling."""
    if dialect_of(url) == "sqlite":
        return str(sqlite_path(url.partition("?")[0]).resolve())
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 a driver that SQLite does not need

    given = conninfo_to_dict(url)
    where = [str(given.get(key) or "").lower() for key in ("host", "hostaddr", "service")]
    return json.dumps([*where, str(given.get("port") or 5432), given.get("dbname") or given.get("user")])


def table_name(url: str, table: str) -> str:
    """Return the qualified name of one of Gandy's tables."""
    return table if dialect_of(url) == "sqlite" else f"gandy.{table}"


def database_file(url: str) -> Path | None:
    """Return the file of a database; None for a server."""
    return sqlite_path(url) if dialect_of(url) == "sqlite" else None


#: Names resolve to PostgreSQL's own objects, regardless of the search_path of the user who runs the script.
_PIN: Final = "SET LOCAL search_path = pg_catalog, pg_temp;\n"


def pending_script(state: SchemaState, dialect: Dialect) -> str:
    """Return the script of all pending migrations; empty if there are none."""
    return "\n".join(_transaction(migration, dialect) for migration in state.pending(dialect))


def _transaction(migration: Migration, dialect: Dialect) -> str:
    record = load_statements(dialect)["record_migration"]
    values = {"version": migration.version, "compatible_from": migration.compatible_from}
    for name, value in values.items():
        record = record.replace(f"%({name})s", str(value)).replace(f":{name}", str(value))
    pin = _PIN if dialect == "postgres" else ""
    return f"-- {migration.name}\nBEGIN;\n{pin}{migration.sql.strip()}\n{record.strip()};\nCOMMIT;\n"
