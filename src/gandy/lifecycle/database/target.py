"""Reaching the swept database, and holding one connection to it for the length of a sweep."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from gandy.errors import DatabaseUnreachableError, UnsafeSearchPathError
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.database.postgres import Postgres
from gandy.lifecycle.database.postgres_driver import DRIVER_NAME
from gandy.lifecycle.database.postgres_path import hides_catalogue
from gandy.lifecycle.database.postgres_state import SEEN, SIGHT
from gandy.lifecycle.database.sqlite import Sqlite
from gandy.lifecycle.database.values import bind_texts, read_text
from gandy.settings.urls import read_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from gandy.clock import Clock
    from gandy.lifecycle.database.dialect import Dialect, Patience
    from gandy.settings.urls import DatabaseUrl

_BUSY_TIMEOUT_SECONDS = 1.0
_MOST_ENGINES = 32
_ENFORCE_KEYS = "PRAGMA foreign_keys = ON"
# The driver reads instants and spans in these styles only, whatever the role or database has set. The same
# statement tells where the state is.
_STYLES = (
    "SELECT pg_catalog.set_config('TimeZone', 'UTC', false),"
    " pg_catalog.set_config('DateStyle', 'ISO', false),"
    f" pg_catalog.set_config('IntervalStyle', 'postgres', false), {SIGHT}"
)


@dataclass(frozen=True, slots=True)
class Session:
    """One connection to the swept database, and how to speak to it."""

    connection: sa.Connection
    dialect: Dialect
    clock: Clock | None = None

    @contextmanager
    def batch(self, patience: Patience) -> Iterator[sa.Connection]:
        """A short transaction that writes and gives way to other work."""
        self.connection.execution_options(gandy_begin="BEGIN IMMEDIATE")
        with self.connection.begin():
            self.dialect.begin_batch(self.connection, patience)
            yield self.connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A short transaction on our own tables."""
        self.connection.execution_options(gandy_begin="BEGIN IMMEDIATE")
        with self.connection.begin():
            yield self.connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads; within another one it is a part of that."""
        if self.connection.in_transaction():
            yield self.connection
            return
        self.connection.execution_options(gandy_begin="BEGIN")
        with self.dialect.read_only(self.connection), self.connection.begin():
            yield self.connection

    @contextmanager
    def alone(self) -> Iterator[sa.Connection]:
        """For one statement, which is a transaction of its own: no BEGIN and no COMMIT is sent."""
        self.connection.execution_options(gandy_begin=None)
        with self.dialect.autocommit(self.connection), self.connection.begin():
            yield self.connection

    @property
    def is_lost(self) -> bool:
        """Whether the connection can be used no more."""
        if self.connection.invalidated or self.connection.closed:
            return True
        return bool(getattr(self.connection.connection.driver_connection, "closed", False))

    def now(self) -> datetime:
        """The database's clock, or the one that a test passed."""
        if self.clock is not None:
            return self.clock.now
        with self.reading() as connection:
            return self.dialect.now(connection)


@contextmanager
def open_target(target: str, *, clock: Clock | None = None) -> Iterator[Session]:
    """Connect for the length of one call."""
    found = read_url(target)
    dialect: Dialect = Sqlite() if found.kind == "sqlite" else Postgres()
    engine = _engine(_sqlite_url(found) if found.kind == "sqlite" else _postgres_url(found))
    try:
        connection = engine.connect()
    except DBAPIError as error:
        raise DatabaseUnreachableError(found.shown, said(error)) from error
    with connection:
        yield Session(connection, dialect, clock)


def _sqlite_url(found: DatabaseUrl) -> URL:
    try:
        is_file = Path(found.database or "").is_file()
    except OSError as error:  # such as a name that is too long
        raise DatabaseUnreachableError(found.shown, str(error.strerror)) from error
    if not is_file:
        raise DatabaseUnreachableError(found.shown, "there is no such file")
    return URL.create("sqlite+pysqlite", database=found.database)


def _postgres_url(found: DatabaseUrl) -> URL:
    query: dict[str, str | tuple[str, ...]] = dict(found.parameters)
    host, port = found.hosts[0] if len(found.hosts) == 1 else (None, None)
    if len(found.hosts) > 1:
        query["host"] = tuple(f"{name}:{number or ''}" for name, number in found.hosts)
    return URL.create(
        DRIVER_NAME,
        username=found.user,
        password=found.password,
        host=host or None,
        port=port,
        database=found.database,
        query=query,
    )


@lru_cache(_MOST_ENGINES)
def _engine(url: URL) -> sa.Engine:
    """An engine keeps no connection, but it asks a server about itself the first time only."""
    return _sqlite_engine(url) if url.get_backend_name() == "sqlite" else _postgres_engine(url)


def _postgres_engine(url: URL) -> sa.Engine:
    # Plans are made for the values at hand, and a pooler in between sees no prepared statement.
    # Each statement must see what was committed before it, whatever the database's own default is.
    engine = sa.create_engine(
        url,
        poolclass=NullPool,
        isolation_level="READ COMMITTED",
        use_native_hstore=False,
        connect_args={"prepare_threshold": None},
    )

    @sa.event.listens_for(engine, "connect", insert=True)
    def _speak_utc(connection: Any, record: Any) -> None:  # noqa: ANN401  # the driver's own
        connection.autocommit = True
        _must_be_own_names(connection)
        record.info[SEEN] = connection.execute(_STYLES).fetchone()[-1]
        connection.autocommit = False

    return engine


def _must_be_own_names(connection: Any) -> None:  # noqa: ANN401  # the driver's own
    """Before any statement that looks up a name; SHOW looks up none."""
    [path] = connection.execute("SHOW search_path").fetchone()
    if hides_catalogue(path):
        connection.close()
        raise UnsafeSearchPathError(path)


def _sqlite_engine(url: URL) -> sa.Engine:
    engine = sa.create_engine(
        url, poolclass=NullPool, connect_args={"isolation_level": None, "timeout": _BUSY_TIMEOUT_SECONDS}
    )

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:  # noqa: ANN401  # the driver's own
        connection.text_factory = read_text
        connection.execute(_ENFORCE_KEYS)

    @sa.event.listens_for(engine, "before_cursor_execute", retval=True)
    def _bind(*call: Any) -> tuple[str, Any]:  # noqa: ANN401  # the driver's own
        [_connection, _cursor, statement, parameters, _context, _is_many] = call
        return bind_texts(statement, parameters)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        begin = connection.get_execution_options().get("gandy_begin", "BEGIN")
        if begin is not None:
            connection.exec_driver_sql(begin)

    return engine
