"""Connections of the kinds that applications already have, each with its own commit and rollback."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import django  # type: ignore[import-untyped]
import psycopg
import sqlalchemy
from django.conf import settings  # type: ignore[import-untyped]
from django.db.utils import ConnectionHandler  # type: ignore[import-untyped]
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

settings.configure(USE_TZ=True)
django.setup()


@dataclass
class Lent:
    """A connection and how its owner ends a transaction."""

    connection: Any
    commit: Callable[[], None]
    rollback: Callable[[], None]


@dataclass
class LentAsync:
    """The same, awaited."""

    connection: Any
    commit: Callable[[], Awaitable[None]]
    rollback: Callable[[], Awaitable[None]]


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


@contextmanager
def plain_sqlite(url: str) -> Iterator[Lent]:
    connection = sqlite3.connect(path_of(url))
    yield Lent(connection, connection.commit, connection.rollback)
    connection.close()


@contextmanager
def sqlite_between_begin_and_commit(url: str) -> Iterator[Lent]:
    connection = sqlite3.connect(path_of(url), isolation_level=None)
    connection.execute("BEGIN")
    yield Lent(connection, connection.commit, connection.rollback)
    connection.close()


@contextmanager
def plain_psycopg(url: str) -> Iterator[Lent]:
    with psycopg.connect(url) as connection:
        yield Lent(connection, connection.commit, connection.rollback)


@contextmanager
def sqlalchemy_connection(url: str) -> Iterator[Lent]:
    engine = sqlalchemy.create_engine(_alchemical(url))
    with engine.connect() as connection:
        yield Lent(connection, connection.commit, connection.rollback)
    engine.dispose()


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Lent]:
    engine = sqlalchemy.create_engine(_alchemical(url))
    with Session(engine) as session:
        yield Lent(session, session.commit, session.rollback)
    engine.dispose()


@contextmanager
def django_connection(url: str) -> Iterator[Lent]:
    if url.startswith("sqlite"):
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": path_of(url)}
    else:
        parts = {name.upper(): str(value) for name, value in conninfo_to_dict(url).items()}
        parts["NAME"] = parts.pop("DBNAME")
        database = {"ENGINE": "django.db.backends.postgresql", **parts}
    connection = ConnectionHandler({"default": database})["default"]
    connection.set_autocommit(False)
    yield Lent(connection, connection.commit, connection.rollback)
    connection.close()


@asynccontextmanager
async def async_psycopg(url: str) -> AsyncIterator[LentAsync]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield LentAsync(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def plain_asyncpg(url: str) -> AsyncIterator[LentAsync]:
    connection = await asyncpg.connect(url)
    yield await _in_a_transaction(connection)
    await connection.close()


@asynccontextmanager
async def pooled_asyncpg(url: str) -> AsyncIterator[LentAsync]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        yield await _in_a_transaction(connection)
        await connection.execute("ROLLBACK")


async def _in_a_transaction(connection: asyncpg.Connection) -> LentAsync:
    """Open a transaction now and after each end, as the other kinds do by themselves."""
    await connection.execute("BEGIN")
    return LentAsync(
        connection,
        lambda: connection.execute("COMMIT; BEGIN"),
        lambda: connection.execute("ROLLBACK; BEGIN"),
    )


@asynccontextmanager
async def sqlalchemy_async_connection(url: str, driver: str = "psycopg") -> AsyncIterator[LentAsync]:
    engine = create_async_engine(_alchemical(url, driver))
    async with AsyncConnection(engine) as connection:
        yield LentAsync(connection, connection.commit, connection.rollback)
    await engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_session(url: str, driver: str = "psycopg") -> AsyncIterator[LentAsync]:
    engine = create_async_engine(_alchemical(url, driver))
    async with AsyncSession(engine) as session:
        yield LentAsync(session, session.commit, session.rollback)
    await engine.dispose()


def sqlalchemy_connection_on_asyncpg(url: str) -> AbstractAsyncContextManager[LentAsync]:
    return sqlalchemy_async_connection(url, "asyncpg")


def sqlalchemy_session_on_asyncpg(url: str) -> AbstractAsyncContextManager[LentAsync]:
    return sqlalchemy_async_session(url, "asyncpg")


def _alchemical(url: str, driver: str = "psycopg") -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")
