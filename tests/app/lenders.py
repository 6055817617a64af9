"""Connections of the kinds that applications already have, each with its own commit and rollback."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
async def sqlalchemy_async_connection(url: str) -> AsyncIterator[LentAsync]:
    engine = create_async_engine(_alchemical(url))
    async with AsyncConnection(engine) as connection:
        yield LentAsync(connection, connection.commit, connection.rollback)
    await engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_session(url: str) -> AsyncIterator[LentAsync]:
    engine = create_async_engine(_alchemical(url))
    async with AsyncSession(engine) as session:
        yield LentAsync(session, session.commit, session.rollback)
    await engine.dispose()


def _alchemical(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")
