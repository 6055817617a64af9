"""The PostgreSQL dialect of the lifecycle."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Select, bindparam, cast, func, literal, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import (
    BigInteger,
    Date,
    DateTime,
    Float,
    Integer,
    Interval,
    Numeric,
    String,
    UserDefinedType,
)
from typing_extensions import override

from gandy.lifecycle.database.dialect import (
    AccessPath,
    Dialect,
    DriverFailure,
    LockPatience,
    ReplicationLag,
    TableSize,
)
from gandy.lifecycle.database.facts import Catalogue, ColumnFacts, ColumnType, TableFacts, TableName, Wanted
from gandy.lifecycle.database.failures import Explain, original
from gandy.lifecycle.database.instants import Form, InstantKind, kind_of_numbers, kind_of_unit
from gandy.lifecycle.database.postgres_catalogue import read_catalogue
from gandy.lifecycle.database.postgres_facts import unchanged
from gandy.lifecycle.database.postgres_partitions import PostgresPartitions
from gandy.lifecycle.database.postgres_state import read_sight
from gandy.lifecycle.database.sampling import sample

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import FromClause
    from sqlalchemy.sql.elements import BindParameter, ColumnElement

    from gandy.lifecycle.contract.fields import Unit
    from gandy.lifecycle.database.state_sight import StateTables


# lock_not_available, query_canceled (statement_timeout), deadlock_detected, serialization_failure
_CONTENDED = {"55P03", "57014", "40P01", "40001"}
# Error classes that concern the statement, the session or the server. Every other error is the
# fault of a row: triggers raise codes of their own.
NOT_OF_A_ROW = frozenset(
    "08 0A 0B 0L 0P 24 25 26 28 2D 34 3B 3D 3F 40 42 53 54 55 57 58 F0 XX".split()  # noqa: SIM905
)

_MISSING_STATISTICS = text(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relkind = 'r' AND reltuples < 0::real AND ("
    "oid = :name ::regclass::oid OR oid IN ("
    "SELECT relid::oid FROM pg_catalog.pg_partition_tree(:name ::regclass))))"
)
# If the role may not see a standby, every column but its process is NULL. If it may, the lag is NULL
# while the standby has nothing to replay.
_REPLICATION_LAG = text(
    "SELECT coalesce(pg_catalog.max(replay_lag), '0') AS slowest,"
    " pg_catalog.count(*) FILTER (WHERE state IS NULL) AS hidden,"
    " pg_catalog.quote_ident(current_user) AS role FROM pg_catalog.pg_stat_replication"
)
# Use an index in its own order; never scan the table, nor sort all dead rows.
_INDEX_WALK = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off"}


class _RowAddress(UserDefinedType[str]):
    """The type of ctid."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TID"

    def bind_expression(self, bindvalue: BindParameter[str]) -> ColumnElement[str]:
        return cast(bindvalue, self)


class Postgres(PostgresPartitions, Dialect):
    """PostgreSQL 14 and later."""

    name = "postgresql"
    has_row_locks = True
    has_partitions = True
    has_pipeline = True
    only_schema = None

    @override
    def now(self, connection: Connection) -> datetime:
        return connection.execute(select(func.clock_timestamp(type_=DateTime(timezone=True)))).scalar_one()

    @override
    def begin_batch(self, connection: Connection, patience: LockPatience) -> None:
        """Set the planner as it was for the judged plan: index scans, never a scan of the table."""
        connection.execute(batch_limits(patience))

    @override
    @contextmanager
    def read_only(self, connection: Connection) -> Iterator[None]:
        """Set it in BEGIN itself, which saves a round trip."""
        driver = _driver(connection)
        driver.read_only = True
        try:
            yield
        finally:
            if driver.info.transaction_status is TransactionStatus.IDLE:  # else a ROLLBACK has failed
                driver.read_only = None

    @override
    @contextmanager
    def autocommit(self, connection: Connection) -> Iterator[None]:
        driver = _driver(connection)
        driver.autocommit = True
        try:
            yield
        finally:
            if not driver.closed:
                driver.autocommit = False

    @override
    def instant_in(self, span: timedelta) -> ColumnElement[Any]:
        return func.clock_timestamp(type_=DateTime(timezone=True)) + literal(span, Interval)

    @override
    def serialise_setup(self, connection: Connection) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("gandy_lifecycle_setup"))))

    @override
    def session(self) -> ColumnElement[str]:
        return cast(func.pg_backend_pid(), String)

    @override
    def is_direct(self, connection: Connection, session: str) -> bool:
        """A pooler reports a made-up backend pid; prepared statements may then be those of other clients."""
        return str(_driver(connection).info.backend_pid) == session

    @override
    def is_gone(self, connection: Connection, session: str) -> bool:
        found = connection.execute(
            text("SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE pid = :pid"),
            {"pid": int(session)},
        )
        return int(found.scalar_one()) == 0

    @override
    def failure(self, error: Exception) -> DriverFailure:
        cause = original(error)
        state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
        if state in _CONTENDED:
            return DriverFailure.CONTENDED
        return DriverFailure.OTHER if state is None or state[:2] in NOT_OF_A_ROW else DriverFailure.ROW

    @override
    def catalogue(self, connection: Connection, wanted: Sequence[Wanted] | None) -> Catalogue:
        return read_catalogue(connection, wanted)

    @override
    def unchanged(self, marks: Mapping[TableName, str]) -> ColumnElement[bool]:
        return unchanged(marks)

    @override
    def keep_tables(self, connection: Connection, tables: Sequence[TableName]) -> None:
        """Take the lock mode of a DELETE, which blocks new keys and triggers, before the first read."""
        names = ", ".join(_regclass(table) for table in tables)
        connection.exec_driver_sql(f"LOCK TABLE {names} IN ROW EXCLUSIVE MODE".replace("%", "%%"))

    @override
    def state_sight(self, connection: Connection, *, is_fresh: bool = True) -> StateTables:
        return read_sight(connection, is_fresh=is_fresh)

    @override
    def stored_type(self, declared: ColumnType) -> ColumnType:
        return declared

    @override
    def row_identity(self, columns: Collection[str]) -> ColumnFacts | None:
        return ColumnFacts("ctid", _RowAddress(), is_nullable=False)

    @override
    def form_of(
        self, connection: Connection, table: TableFacts, column: ColumnFacts, *, unit: Unit | None
    ) -> Form:
        if isinstance(column.type, Integer | BigInteger | Numeric | Float):
            kind = kind_of_unit(unit)
            if unit is None:
                kind = kind_of_numbers(sample(connection, table, column.name))
        else:
            kind = None if kind_of_unit(unit) else _kind(column.type)
        if kind is None and unit is not None:
            raise ValueError(f"{column.name} is {column.type!s}, so unit = {unit} is wrong")
        if kind is None:
            raise ValueError(f"{column.name} is {column.type!s}, which holds no instant")
        return Form(kind)

    @override
    def access(self, connection: Connection, statement: Select[Any], table: TableFacts) -> AccessPath:
        _set_local(connection, **_INDEX_WALK)
        [plan] = connection.execute(Explain(statement)).scalar_one()
        members = {table.name}
        if table.is_partitioned or table.inheritors:
            members.update(self.members(connection, table.name))
        nodes = list(_nodes(plan["Plan"]))
        scans = [node for node in nodes if _relation(node) in members]
        searches = [node for node in scans if "Index Cond" in node]
        detail = ", ".join(f"{node['Node Type']} {node.get('Index Name', '')}".strip() for node in scans)
        index = next((str(node["Index Name"]) for node in searches), None)
        is_in_order = not any("Sort" in node["Node Type"] for node in nodes)
        return AccessPath(bool(scans) and len(searches) == len(scans), index, detail, is_in_order)

    @override
    def estimated_rows(self, connection: Connection, table: TableFacts) -> int | None:
        """Return the planner's estimate: the row count of the last ANALYZE, scaled to the current size."""
        missing = connection.execute(_MISSING_STATISTICS, {"name": _regclass(table.name)})
        if missing.scalar_one():
            return None
        [plan] = connection.execute(Explain(select(text("1")).select_from(table.clause))).scalar_one()
        return int(plan["Plan"]["Plan Rows"])

    @override
    @contextmanager
    def counting(self, connection: Connection, longest: timedelta) -> Iterator[None]:
        """Use a savepoint: the timeout of the count must not apply to later statements."""
        limits = connection.begin_nested()
        try:
            _set_local(connection, statement_timeout=_milliseconds(longest))
            yield
        except DBAPIError as error:
            if self.failure(error) is not DriverFailure.CONTENDED:
                raise
            raise TimeoutError from error
        finally:
            limits.rollback()

    @override
    def kept(self, connection: Connection, rows: FromClause, names: Collection[str]) -> FromClause:
        """Keep nothing: a statement computes a common table expression once, however often it is read."""
        return rows

    @override
    def size(self, connection: Connection, table: TableFacts) -> TableSize:
        found = connection.execute(
            text(
                "WITH RECURSIVE members (relid) AS (SELECT CAST(:name AS regclass)::oid UNION"
                " SELECT inhrelid FROM pg_catalog.pg_inherits JOIN members ON inhparent = relid)"
                " SELECT coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(relid)), 0), coalesce("
                "pg_catalog.sum(greatest(pg_catalog.pg_stat_get_live_tuples(relid), 0)), 0)::bigint"
                " FROM members"
            ),
            {"name": _regclass(table.name)},
        )
        [size, rows] = found.one()
        return TableSize(rows=int(rows), bytes=int(size))

    @override
    def estimate(self, connection: Connection, table: TableFacts) -> TableSize | None:
        return self.size(connection, table)

    @override
    def pages_read(self, connection: Connection, table: TableName) -> int | None:
        found = connection.execute(
            text(
                "SELECT pg_catalog.pg_stat_get_xact_blocks_fetched(:name ::regclass)::numeric + coalesce("
                "pg_catalog.sum(pg_catalog.pg_stat_get_xact_blocks_fetched(indexrelid)), 0)"
                " FROM pg_catalog.pg_index WHERE indrelid = :name ::regclass::oid"
            ),
            {"name": _regclass(table)},
        )
        return int(found.scalar_one())

    @override
    def replication_lag(self, connection: Connection) -> ReplicationLag:
        row = connection.execute(_REPLICATION_LAG).one()
        remedy = f"Run as a superuser: GRANT pg_monitor TO {row.role}"
        return ReplicationLag(row.slowest, row.hidden, remedy if row.hidden else "")

    @override
    def lock_waiters(self, connection: Connection, table: TableName) -> int:
        """Waiters for the table itself, or for a transaction that holds a lock on it."""
        found = connection.execute(
            text(
                "SELECT pg_catalog.count(DISTINCT waiter.pid) FROM pg_catalog.pg_locks AS waiter"
                " WHERE NOT waiter.granted AND (waiter.relation = :name ::regclass::oid OR EXISTS ("
                "SELECT FROM pg_catalog.pg_locks AS mine WHERE mine.pid = waiter.pid"
                " AND mine.relation = :name ::regclass::oid AND mine.granted))"
            ),
            {"name": _regclass(table)},
        )
        return int(found.scalar_one())

    @override
    def version_of_others(self, connection: Connection) -> int:
        """Return a constant: there is no single write lock, so commits of others do not matter."""
        return 0

    @override
    def is_checked_singleton(self, connection: Connection, facts: TableFacts, column: str) -> bool:
        found = connection.execute(
            text(
                "SELECT pg_catalog.count(*) FROM pg_catalog.pg_constraint JOIN pg_catalog.pg_attribute"
                " ON attrelid = conrelid AND attnum = ANY (conkey)"
                " WHERE contype = 'c' AND conrelid = :name ::regclass::oid AND attname = :column"
            ),
            {"name": _regclass(facts.name), "column": column},
        )
        return bool(found.scalar_one())


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101  # the only driver
    return driver


def _kind(declared: ColumnType) -> InstantKind | None:
    if isinstance(declared, DateTime):
        return InstantKind.ZONED if declared.timezone else InstantKind.NAIVE
    return InstantKind.DATE if isinstance(declared, Date) else None


def batch_limits(patience: LockPatience) -> Select[Any]:
    """Return the statement that sets timeouts and plan settings of a deleting transaction."""
    return _settings(
        lock_timeout=_milliseconds(patience.lock),
        statement_timeout=_milliseconds(patience.statement),
        # A generic plan serves every range.
        plan_cache_mode="force_generic_plan",
        row_security="off",  # a policy that would hide a row raises an error
        **_INDEX_WALK,
    )


def _set_local(connection: Connection, **settings: str) -> None:
    connection.execute(_settings(**settings))


def _settings(**settings: str) -> Select[Any]:
    return select(*(func.set_config(name, bindparam(None, value), True) for name, value in settings.items()))


def _milliseconds(span: timedelta) -> str:
    return str(max(1, span // timedelta(milliseconds=1)))


def _regclass(table: TableName) -> str:
    """Quote the name for regclass; SQLAlchemy's quoting would double a percent sign."""
    parts = (part.replace('"', '""') for part in (table.schema, table.name) if part is not None)
    return ".".join(f'"{part}"' for part in parts)


def _relation(node: dict[str, Any]) -> TableName:
    return TableName(node.get("Schema"), str(node.get("Relation Name")))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
