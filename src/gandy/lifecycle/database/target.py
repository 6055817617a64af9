"""Connections to the database of a contract."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psycopg
import sqlalchemy as sa
from sqlalchemy import Enum, String
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from sqlalchemy.util import LRUCache
from typing_extensions import override

from gandy.errors import DatabaseUnreachableError, TargetFaultError, UnsafeSearchPathError
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.database.numbers import bind_texts, read_text
from gandy.lifecycle.database.postgres import Postgres
from gandy.lifecycle.database.postgres_facts import hides_catalogue
from gandy.lifecycle.database.postgres_state import SEEN, SIGHT
from gandy.lifecycle.database.sqlite import Sqlite
from gandy.settings.urls import read_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from sqlalchemy import Connection
    from sqlalchemy.sql.functions import Function
    from sqlalchemy.types import TypeEngine

    from gandy.clock import Clock
    from gandy.lifecycle.database.dialect import Dialect, LockPatience
    from gandy.settings.urls import DatabaseUrl


# SQL syntax that looks like a function and takes no schema.
_SYNTAX = frozenset({"all", "any", "coalesce", "greatest", "least", "nullif", "some"})
DRIVER_NAME = "postgresql+gandy_psycopg"
SQLITE_DRIVER_NAME = "sqlite+gandy_pysqlite"
_MAJOR = 10_000


class OwnNamesCompiler(PGCompiler_psycopg):
    """Qualifies functions with pg_catalog: other roles may create functions on the search path."""

    @override
    def visit_function(self, func: Function[Any], *given: Any, **how: Any) -> str:
        text = super().visit_function(func, *given, **how)
        has_schema = bool(getattr(func, "packagenames", ()))
        return text if has_schema or func.name.lower() in _SYNTAX else f"pg_catalog.{text}"

    @override
    def render_bind_cast(self, type_: TypeEngine[Any], dbapi_type: TypeEngine[Any], sqltext: str) -> str:
        """Cast strings to text: the operator of pg_catalog then matches a text column without a cast."""
        if isinstance(dbapi_type, String) and not isinstance(dbapi_type, Enum):
            return f"{sqltext}::TEXT"
        kind = self.dialect.type_compiler_instance.process(dbapi_type, identifier_preparer=self.preparer)
        return f"{sqltext}::{kind}"


class SharingDialect(DefaultDialect):
    """Is equal to the dialect of a like server: an engine finds what another one has compiled."""

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._facts() == other._facts()

    @override
    def __hash__(self) -> int:
        return hash(type(self))

    def _facts(self) -> tuple[object, ...]:
        """Return what the server decides about the text of a statement."""
        return (self.server_version_info, getattr(self, "_backslash_escapes", None))


class SharingSqlite(SharingDialect, SQLiteDialect_pysqlite):
    """The driver of SQLite, whose library is the same for each file."""

    supports_statement_cache = True


class InformedDialect(SharingDialect, PGDialect_psycopg):
    """Sends no queries on the first connection: the server reports these facts when it accepts one."""

    supports_statement_cache = True
    statement_compiler = OwnNamesCompiler

    @override
    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        return divmod(_driver(connection).info.server_version, _MAJOR)

    @override
    def _get_default_schema_name(self, connection: Connection) -> str:
        """Unused: each reading of the catalogue includes it, since it may differ between connections."""
        raise NotImplementedError

    @override
    def get_default_isolation_level(self, dbapi_conn: object) -> Literal["READ COMMITTED"]:
        return "READ COMMITTED"

    @override
    def _set_backslash_escapes(self, connection: Connection) -> None:
        strings = _driver(connection).info.parameter_status("standard_conforming_strings")
        self._backslash_escapes = strings == "off"


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101  # the only driver
    return driver


registry.register("postgresql.gandy_psycopg", __name__, InformedDialect.__name__)
registry.register("sqlite.gandy_pysqlite", __name__, SharingSqlite.__name__)


_BUSY_TIMEOUT_SECONDS = 1.0
_MOST_ENGINES = 32
COMPILED: LRUCache[Any, Any] = LRUCache(2_000)  #: the statements of all engines, compiled
_ENFORCE_KEYS = "PRAGMA foreign_keys = ON"
# The driver parses instants and spans in these styles only, so they override role and database. The same
# statement reads where the state is.
_STYLES = (
    "SELECT pg_catalog.set_config('TimeZone', 'UTC', false),"
    " pg_catalog.set_config('DateStyle', 'ISO', false),"
    f" pg_catalog.set_config('IntervalStyle', 'postgres', false), {SIGHT}"
)


@dataclass(frozen=True, slots=True)
class TargetSession:
    """One connection to the swept database, with its dialect."""

    connection: sa.Connection
    dialect: Dialect
    clock: Clock | None = None

    @contextmanager
    def batch(self, patience: LockPatience) -> Iterator[sa.Connection]:
        """Open a short write transaction that gives way to other work."""
        self.connection.execution_options(gandy_begin="BEGIN IMMEDIATE")
        with self.connection.begin():
            self.dialect.begin_batch(self.connection, patience)
            yield self.connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a short write transaction on our own tables."""
        self.connection.execution_options(gandy_begin="BEGIN IMMEDIATE")
        with self.connection.begin():
            yield self.connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a read-only transaction; inside another transaction, join it."""
        if self.connection.in_transaction():
            yield self.connection
            return
        self.connection.execution_options(gandy_begin="BEGIN")
        with self.dialect.read_only(self.connection), self.connection.begin():
            yield self.connection

    @contextmanager
    def alone(self) -> Iterator[sa.Connection]:
        """Run one statement in autocommit mode: no BEGIN and no COMMIT is sent."""
        self.connection.execution_options(gandy_begin=None)
        with self.dialect.autocommit(self.connection), self.connection.begin():
            yield self.connection

    @property
    def is_lost(self) -> bool:
        """Whether the connection is no longer usable."""
        if self.connection.invalidated or self.connection.closed:
            return True
        return bool(getattr(self.connection.connection.driver_connection, "closed", False))

    def now(self) -> datetime:
        """Return the time of the database's clock, or of the clock that a test passed."""
        if self.clock is not None:
            return self.clock.now
        with self.reading() as connection:
            return self.dialect.now(connection)


@contextmanager
def open_target(target: str, *, clock: Clock | None = None) -> Iterator[TargetSession]:
    """Connect for the duration of one call; an unhandled error of the driver becomes a TargetFaultError."""
    found = read_url(target)
    dialect: Dialect = Sqlite() if found.kind == "sqlite" else Postgres()
    engine = _engine(_sqlite_url(found) if found.kind == "sqlite" else _postgres_url(found))
    try:
        connection = engine.connect()
    except DBAPIError as error:
        raise DatabaseUnreachableError(found.shown, said(error)) from error
    with connection:
        try:
            yield TargetSession(connection, dialect, clock)
        except (DBAPIError, psycopg.Error) as error:
            raise TargetFaultError(said(error)) from error


def _sqlite_url(found: DatabaseUrl) -> URL:
    try:
        is_file = Path(found.database or "").is_file()
    except OSError as error:  # such as a name that is too long
        raise DatabaseUnreachableError(found.shown, str(error.strerror)) from error
    if not is_file:
        raise DatabaseUnreachableError(found.shown, "there is no such file")
    return URL.create(SQLITE_DRIVER_NAME, database=found.database)


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
    """Cache engines: they keep no connections, but query facts about a server only once."""
    return _sqlite_engine(url) if url.get_backend_name() == "sqlite" else _postgres_engine(url)


def _postgres_engine(url: URL) -> sa.Engine:
    # Without prepared statements, plans use the actual values, and a connection pooler works.
    # Each statement must see everything committed before it, whatever the database's default is.
    engine = sa.create_engine(
        url,
        poolclass=NullPool,
        execution_options={"compiled_cache": COMPILED},
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
    """Check the search path before any statement that resolves a name; SHOW resolves none."""
    [path] = connection.execute("SHOW search_path").fetchone()
    if hides_catalogue(path):
        connection.close()
        raise UnsafeSearchPathError(path)


def _sqlite_engine(url: URL) -> sa.Engine:
    engine = sa.create_engine(
        url,
        poolclass=NullPool,
        execution_options={"compiled_cache": COMPILED},
        connect_args={"isolation_level": None, "timeout": _BUSY_TIMEOUT_SECONDS},
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
