"""The lifecycle's own tables, upserts, and recorded table sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.types import TypeDecorator, TypeEngine
from typing_extensions import override

from gandy.lifecycle.database.dialect import TableSize
from gandy.lifecycle.database.state_sight import STATE, columns_of, state_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement
    from sqlalchemy.engine import Dialect as SqlDialect


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
    """Convert an instant from either database."""
    if isinstance(value, str):
        return datetime.strptime(value, _FORMAT).replace(tzinfo=UTC)
    assert value is None or isinstance(value, datetime)  # noqa: S101  # timestamptz
    return value


# Columns are of type text, which matches the `=` of pg_catalog exactly: the search path is not used.
_METADATA = MetaData(schema=STATE)

LEASE = Table(
    "gandy_lifecycle_lease",
    _METADATA,
    Column("scheduler", Text, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("session", Text, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
RULE = Table(
    "gandy_lifecycle_rule",
    _METADATA,
    Column("scheduler", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("shape", Text, nullable=False),  # the rule's selection; a cursor of another shape is void
    Column("accepted", BigInteger),  # the last confirmed retention in milliseconds, or rows of a cap
    Column("cutoff", Instant),  # of an unfinished pass, with its cursor
    Column("cursor", Text),
    Column("deleted", BigInteger, nullable=False),
    Column("backlog", BigInteger, nullable=False),
    Column("measured_at", Instant),
    Column("lag_seconds", Float),  # these three as of measured_at
    Column("arriving_per_hour", Float),
    Column("removed_per_hour", Float),
    Column("held_rows", BigInteger),  # rows that wait for a confirmation
    Column("agreed", Text),  # the confirmed selection; NULL in the first version
)
QUARANTINE = Table(
    "gandy_lifecycle_quarantine",
    _METADATA,
    Column("scheduler", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("row_key", Text, primary_key=True),
    Column("rule", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("quarantined_at", Instant, nullable=False),
)
HOLD = Table(
    "gandy_lifecycle_hold",
    _METADATA,
    Column("scheduler", Text, primary_key=True),
    Column("schema_name", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("column_name", Text, primary_key=True),
    Column("equals", Text, primary_key=True),
)
AUDIT = Table(
    "gandy_lifecycle_audit",
    _METADATA,
    Column("table_name", Text, primary_key=True),
    Column("audited_at", Instant, primary_key=True),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger),
)
STATE_TABLES = tuple(_METADATA.sorted_tables)
OWN_TABLES = tuple(sorted(table.name for table in STATE_TABLES))


def has_table(connection: Connection, table: Table) -> bool:
    """Whether this table of our own exists; an older version has fewer tables."""
    schema = state_schema(connection)
    return schema is not None and columns_of(connection, table.name, schema) is not None


Values = Mapping[str, object]


def insert_or_set_where(
    connection: Connection, table: Table, values: Values, *, changes: Values, where: ColumnElement[bool]
) -> postgresql.Insert | sqlite.Insert:
    """Return an upsert that updates an existing row only if `where` is true."""
    keys = [column.name for column in table.primary_key]
    given = dict(changes)
    if connection.dialect.name == "postgresql":
        mine = postgresql.insert(table).values(**values)
        return mine.on_conflict_do_update(index_elements=keys, set_=given, where=where)
    theirs = sqlite.insert(table).values(**values)
    return theirs.on_conflict_do_update(index_elements=keys, set_=given, where=where)


def insert_or_set(connection: Connection, table: Table, values: Values, *, changes: Values) -> None:
    """Insert a row, or update the row with the same key."""
    keys = [column.name for column in table.primary_key]
    given = dict(changes)
    if connection.dialect.name == "postgresql":
        mine = postgresql.insert(table).values(**values)
        connection.execute(mine.on_conflict_do_update(index_elements=keys, set_=given))
    else:
        theirs = sqlite.insert(table).values(**values)
        connection.execute(theirs.on_conflict_do_update(index_elements=keys, set_=given))


def insert_or_replace(
    connection: Connection, table: Table, rows: Sequence[Values], *, changes: Sequence[str]
) -> None:
    """Insert rows, or update these columns of rows with the same keys, in one statement."""
    keys = [column.name for column in table.primary_key]
    if connection.dialect.name == "postgresql":
        mine = postgresql.insert(table).values(list(rows))
        given = {name: mine.excluded[name] for name in changes}
        connection.execute(mine.on_conflict_do_update(index_elements=keys, set_=given))
    else:
        theirs = sqlite.insert(table).values(list(rows))
        given = {name: theirs.excluded[name] for name in changes}
        connection.execute(theirs.on_conflict_do_update(index_elements=keys, set_=given))


_KEPT_PER_TABLE = 100


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A table's size at an instant."""

    at: datetime
    size: TableSize


def last_measured(connection: Connection) -> dict[str, MeasuredTable]:
    """Read the latest audit of each table."""
    if not has_table(connection, AUDIT):
        return {}
    newest = select(AUDIT.c.table_name, func.max(AUDIT.c.audited_at).label("at")).group_by(AUDIT.c.table_name)
    latest = newest.subquery()
    found = connection.execute(
        select(AUDIT).join(
            latest,
            (AUDIT.c.table_name == latest.c.table_name) & (AUDIT.c.audited_at == latest.c.at),
        )
    )
    return {row.table_name: MeasuredTable(row.audited_at, TableSize(row.rows, row.bytes)) for row in found}


def forget_others(connection: Connection, tables: Iterable[str]) -> None:
    """Delete audits of tables that no longer exist."""
    connection.execute(delete(AUDIT).where(AUDIT.c.table_name.not_in(list(tables))))


def record_size(connection: Connection, table: str, measured: MeasuredTable) -> None:
    """Record a table's size, and delete all but the newest hundred records."""
    mine = AUDIT.c.table_name == table
    connection.execute(delete(AUDIT).where(mine, AUDIT.c.audited_at == measured.at))
    connection.execute(
        insert(AUDIT).values(
            table_name=table, audited_at=measured.at, rows=measured.size.rows, bytes=measured.size.bytes
        )
    )
    oldest_kept = (
        select(AUDIT.c.audited_at)
        .where(mine)
        .order_by(AUDIT.c.audited_at.desc())
        .offset(_KEPT_PER_TABLE - 1)
        .limit(1)
        .scalar_subquery()
    )
    connection.execute(delete(AUDIT).where(mine, AUDIT.c.audited_at < oldest_kept))
