"""Finding the driver's own connection inside what a caller passes."""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

from gandy.errors import BorrowedConnectionError

if TYPE_CHECKING:
    from types import ModuleType
    from typing import TypeGuard

Given: TypeAlias = Any  # the driver's edge: classes of packages that need not be installed
SyncConnection: TypeAlias = psycopg.Connection[Any] | sqlite3.Connection
AnyConnection: TypeAlias = SyncConnection | psycopg.AsyncConnection[Any]

_KINDS = (
    "pass a psycopg 3 connection (sync or async), a SQLAlchemy Connection or Session on psycopg or sqlite3, "
    "Django's connection, or a sqlite3.Connection"
)
_FOREIGN_DRIVERS = ("psycopg2", "asyncpg", "aiosqlite", "pg8000")


def find_sync(given: Given) -> SyncConnection:
    """Find the connection where the caller's thread can use it."""
    if _is_a(given, "sqlalchemy.ext.asyncio", "AsyncSession", "AsyncConnection"):
        raise BorrowedConnectionError(_name(given), "is async; pass it to `await app.enqueue(...)`")
    found = _unwrap(given)
    if isinstance(found, psycopg.AsyncConnection):
        raise BorrowedConnectionError(_name(given), "is async; pass it to `await app.enqueue(...)`")
    if not isinstance(found, psycopg.Connection | sqlite3.Connection):
        raise BorrowedConnectionError(_name(given), _why_not(found))
    return found


async def find_any(given: Given) -> AnyConnection:
    """Find the connection where the caller awaits."""
    if _is_a(given, "sqlalchemy.ext.asyncio", "AsyncSession"):
        return await find_any(await given.connection())
    if not _is_a(given, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        found = _unwrap(given)
        return found if isinstance(found, psycopg.AsyncConnection) else find_sync(given)
    if not given.in_transaction():
        await given.begin()
    raw = await given.get_raw_connection()
    if isinstance(raw.driver_connection, psycopg.AsyncConnection):
        return raw.driver_connection
    raise BorrowedConnectionError(_name(given), _why_not(raw.driver_connection))


def _unwrap(given: Given) -> object:
    if _is_a(given, "sqlalchemy.orm", "Session", "scoped_session"):
        return _unwrap(given.connection())
    if _is_a(given, "sqlalchemy", "Connection"):
        # What is written on the raw connection is committed by theirs only once it knows of a transaction.
        if not given.in_transaction():
            given.begin()
        return given.connection.driver_connection
    if _is_django(given):
        given.ensure_connection()
        return given.connection
    return given


def _is_a(given: object, module: str, *names: str) -> bool:
    """Ask only packages that are loaded: what was never imported cannot have made the object."""
    loaded: ModuleType | None = sys.modules.get(module)
    kinds = tuple(kind for name in names if isinstance(kind := getattr(loaded, name, None), type))
    return isinstance(given, kinds)


def _is_django(given: object) -> TypeGuard[Given]:
    return all(hasattr(given, name) for name in ("ensure_connection", "in_atomic_block", "vendor"))


def _why_not(found: object) -> str:
    driver = type(found).__module__.partition(".")[0]
    if driver in _FOREIGN_DRIVERS:
        return f"is one of {driver}, which Gandy does not speak; {_KINDS}"
    return f"is no connection that Gandy can write on; {_KINDS}"


def _name(given: object) -> str:
    return f"<{type(given).__module__}.{type(given).__qualname__}>"
