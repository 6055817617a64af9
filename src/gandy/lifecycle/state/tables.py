"""The lifecycle's own tables, made on the first sweep or audit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Column, Connection, Float, MetaData, String, Table, inspect, select, text
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeDecorator, TypeEngine
from typing_extensions import override

from gandy.errors import StateObstructedError

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect as SqlDialect

    from gandy.lifecycle.database.dialect import Dialect, StateAccess
    from gandy.lifecycle.database.facts import SchemaFacts
    from gandy.lifecycle.database.target import Session

_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


class Instant(TypeDecorator[datetime]):
    """An instant: timestamptz on PostgreSQL, text of fixed width in UTC on SQLite."""

    impl = String
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: SqlDialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String())

    @override
    def process_bind_param(self, value: datetime | None, dialect: SqlDialect) -> object:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).strftime(_FORMAT)

    @override
    def process_result_value(self, value: object, dialect: SqlDialect) -> datetime | None:
        return stored_instant(value)


def stored_instant(value: object) -> datetime | None:
    """Read an instant as either database returns it."""
    if isinstance(value, str):
        return datetime.strptime(value, _FORMAT).replace(tzinfo=UTC)
    assert value is None or isinstance(value, datetime)  # noqa: S101  # timestamptz
    return value


_METADATA = MetaData()

LEASE = Table(
    "gandy_lifecycle_lease",
    _METADATA,
    Column("scheduler", String, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("session", String, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
RULE = Table(
    "gandy_lifecycle_rule",
    _METADATA,
    Column("scheduler", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column("rule", String, primary_key=True),
    Column("shape", String, nullable=False),  # what the rule selects by; a cursor of another shape is void
    Column("accepted", BigInteger),  # the retention in milliseconds, or the rows of a cap, last agreed to
    Column("cutoff", Instant),  # of an unfinished pass, with its cursor
    Column("cursor", String),
    Column("deleted", BigInteger, nullable=False),
    Column("backlog", BigInteger, nullable=False),
    Column("measured_at", Instant),
    Column("lag_seconds", Float),  # these three as of then
    Column("arriving_per_hour", Float),
    Column("removed_per_hour", Float),
    Column("held_rows", BigInteger),  # what waits for a person's word
    Column("agreed", String),  # what selected the rows when it was agreed to; the first version kept none
)
QUARANTINE = Table(
    "gandy_lifecycle_quarantine",
    _METADATA,
    Column("scheduler", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column("row_key", String, primary_key=True),
    Column("rule", String, nullable=False),
    Column("error", String, nullable=False),
    Column("quarantined_at", Instant, nullable=False),
)
HOLD = Table(
    "gandy_lifecycle_hold",
    _METADATA,
    Column("scheduler", String, primary_key=True),
    Column("schema_name", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column("column_name", String, primary_key=True),
    Column("equals", String, primary_key=True),
)
AUDIT = Table(
    "gandy_lifecycle_audit",
    _METADATA,
    Column("table_name", String, primary_key=True),
    Column("audited_at", Instant, primary_key=True),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger),
)
OWN_TABLES = tuple(_METADATA.tables)


def is_ready(schema: SchemaFacts) -> bool:
    """Whether the catalogue shows every column of our own tables, open to this role."""
    own = {(table.name, column.name) for table in _METADATA.sorted_tables for column in table.columns}
    return own <= schema.state and schema.may_write_state


def ensure_tables(session: Session) -> None:
    """Make our own tables where they are missing, and complete those of an older version."""
    with session.reading() as connection:
        access = state_access(connection, session.dialect)
        is_complete = access.exists and not _lacks_agreed(connection)
    if access.obstacle is not None:
        raise StateObstructedError(str(access.obstacle))
    if is_complete:
        return
    with session.writing() as connection:
        session.dialect.serialise_setup(connection)
        for table in _METADATA.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
        if _lacks_agreed(connection):
            connection.execute(text("ALTER TABLE gandy_lifecycle_rule ADD COLUMN agreed VARCHAR"))


def state_access(connection: Connection, dialect: Dialect) -> StateAccess:
    """Whether our own tables are there, and what keeps this role from making or writing them."""
    return dialect.state_access(connection, OWN_TABLES)


def has_table(connection: Connection, table: Table) -> bool:
    """Whether this one of our own tables is there; an older version has made fewer."""
    return inspect(connection).has_table(table.name)


def _lacks_agreed(connection: Connection) -> bool:
    found = connection.execute(select(text("*")).select_from(RULE).limit(0))
    return "agreed" not in list(found.keys())
