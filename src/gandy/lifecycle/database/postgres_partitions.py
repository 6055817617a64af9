"""Partitions of PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, literal, select, table, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.ddl import ExecutableDDLElement

from gandy.lifecycle.database.dialect import Layout, Partition
from gandy.lifecycle.database.facts import TableFacts, TableName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.sql.compiler import DDLCompiler


_MEMBERS = text("""
    WITH RECURSIVE member (oid) AS (
        SELECT relation.oid FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE relation.relname = :table AND space.nspname = :schema
        UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN member ON inhparent = member.oid
    )
    SELECT space.nspname::text, relation.relname::text FROM member
    JOIN pg_catalog.pg_class AS relation ON relation.oid = member.oid
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
""")
# A bound is formatted by DateStyle and TimeZone: let the same server parse it.
_RANGES = text(r"""
    SELECT nspname, relname, rows, CASE
        WHEN kind = 'timestamptz'::regtype::oid THEN pg_catalog.to_char(
            ended::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24\:MI\:SS.US"+00\:00"')
        WHEN kind IN ('timestamp'::regtype::oid, 'date'::regtype::oid) THEN pg_catalog.to_char(
            ended::timestamp, 'YYYY-MM-DD"T"HH24\:MI\:SS.US')
        ELSE ended END AS bound, number
    FROM (
        SELECT child_space.nspname, child.relname, greatest(child.reltuples, 0)::bigint AS rows,
               child.oid::bigint AS number,
               field.atttypid AS kind, pg_catalog.btrim(substring(pg_catalog.pg_get_expr(
                   child.relpartbound, child.oid) FROM 'TO \((''[^'']+''|-?[0-9.]+)\)$'), '''') AS ended
        FROM pg_catalog.pg_inherits
        JOIN pg_catalog.pg_class AS child ON child.oid = inhrelid
        JOIN pg_catalog.pg_namespace AS child_space ON child_space.oid = child.relnamespace
        JOIN pg_catalog.pg_class AS parent ON parent.oid = inhparent
        JOIN pg_catalog.pg_namespace AS space ON space.oid = parent.relnamespace
        JOIN pg_catalog.pg_partitioned_table AS layout ON layout.partrelid = parent.oid
        JOIN pg_catalog.pg_attribute AS field
        ON field.attrelid = parent.oid AND field.attnum = layout.partattrs[0]
        WHERE parent.relname = :table AND space.nspname = :schema AND field.attname = :column
        AND layout.partstrat = 'r' AND layout.partnatts = 1
    ) AS ranges WHERE ended IS NOT NULL AND ended NOT IN ('infinity', '-infinity')
""")

_LAYOUT = text("""
    SELECT pg_catalog.pg_get_partkeydef(parent.oid) AS key, CASE
        WHEN layout.partstrat = 'r' AND layout.partnatts = 1 THEN field.attname::text END AS column
    FROM pg_catalog.pg_class AS parent
    JOIN pg_catalog.pg_namespace AS space ON space.oid = parent.relnamespace
    JOIN pg_catalog.pg_partitioned_table AS layout ON layout.partrelid = parent.oid
    LEFT JOIN pg_catalog.pg_attribute AS field
    ON field.attrelid = parent.oid AND field.attnum = layout.partattrs[0] AND field.attnum > 0
    WHERE parent.relname = :table AND space.nspname = :schema
""")
_PARTITIONS = text("""
    SELECT child_space.nspname::text, child.relname::text FROM pg_catalog.pg_inherits
    JOIN pg_catalog.pg_class AS child ON child.oid = inhrelid
    JOIN pg_catalog.pg_namespace AS child_space ON child_space.oid = child.relnamespace
    JOIN pg_catalog.pg_class AS parent ON parent.oid = inhparent
    JOIN pg_catalog.pg_namespace AS space ON space.oid = parent.relnamespace
    WHERE parent.relname = :table AND space.nspname = :schema ORDER BY 1, 2
""")
# Normal dependencies (n) on a table prevent dropping it; its own parts have other dependency types.
_NEEDED_BY = text("""
    SELECT pg_catalog.min(pg_catalog.pg_describe_object(depend.classid, depend.objid, depend.objsubid))
    FROM pg_catalog.pg_class AS relation
    JOIN pg_catalog.pg_type AS row_type ON row_type.oid = relation.reltype
    JOIN pg_catalog.pg_depend AS depend ON (depend.refclassid, depend.refobjid) IN (
        ('pg_catalog.pg_class'::regclass::oid, relation.oid),
        ('pg_catalog.pg_type'::regclass::oid, row_type.oid),
        ('pg_catalog.pg_type'::regclass::oid, row_type.typarray))
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
    LEFT JOIN pg_catalog.pg_constraint AS mine
    ON depend.classid = 'pg_catalog.pg_constraint'::regclass::oid AND mine.oid = depend.objid
    LEFT JOIN pg_catalog.pg_rewrite AS rule
    ON depend.classid = 'pg_catalog.pg_rewrite'::regclass::oid AND rule.oid = depend.objid
    WHERE depend.deptype = 'n' AND relation.relname = :table AND space.nspname = :schema
    AND mine.conrelid IS DISTINCT FROM relation.oid AND rule.ev_class IS DISTINCT FROM relation.oid
""")


class PostgresPartitions:
    """The methods of the dialect for partitions."""

    def layout(self, connection: Connection, table: TableFacts) -> Layout:
        """How the table is partitioned."""
        names = {"table": table.name.name, "schema": table.name.schema}
        key, column = connection.execute(_LAYOUT, names).one()
        if column is None:
            return Layout(key, None)
        ending = {partition.name for partition in self.partitions(connection, table, column)}
        every = [TableName(schema, name) for schema, name in connection.execute(_PARTITIONS, names)]
        endless = [name for name in every if name not in ending and _holds_rows(connection, name)]
        return Layout(key, column, tuple(endless))

    def what_needs(self, connection: Connection, partition: TableName) -> str | None:
        """Return the dependency that prevents dropping the partition, as far as the catalogue shows it."""
        names = {"table": partition.name, "schema": partition.schema}
        found = connection.execute(_NEEDED_BY, names).scalar_one()
        return None if found is None else str(found)

    def members(self, connection: Connection, table: TableName) -> list[TableName]:
        """The table with its partitions and inheriting tables, at every depth."""
        found = connection.execute(_MEMBERS, {"table": table.name, "schema": table.schema})
        return [TableName(schema, name) for schema, name in found]

    def partitions(self, connection: Connection, table: TableFacts, column: str) -> Sequence[Partition]:
        """Return the range partitions of the table by this column that have an upper bound."""
        names = {"table": table.name.name, "schema": table.name.schema, "column": column}
        return [
            Partition(TableName(schema, name), bound, int(rows), int(number))
            for schema, name, rows, bound, number in connection.execute(_RANGES, names)
        ]

    def lock_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        """Lock the table first, as every statement of the application does: the other order deadlocks."""
        connection.execute(_Lock(table, is_alone=True))
        connection.execute(_Lock(partition, is_alone=False))

    def drop_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        """Detach and drop in the batch's transaction, whose lock timeout gives way to other work."""
        connection.execute(_Detach(table, partition))
        connection.execute(_Drop(partition))


def _holds_rows(connection: Connection, name: TableName) -> bool:
    clause = table(name.name, schema=name.schema)
    return connection.execute(select(literal(1)).select_from(clause).limit(1)).first() is not None


class _Lock(ExecutableDDLElement):
    def __init__(self, table: TableName, *, is_alone: bool) -> None:
        self.table = table
        self.is_alone = is_alone


class _Detach(ExecutableDDLElement):
    def __init__(self, table: TableName, partition: TableName) -> None:
        self.table = table
        self.partition = partition


class _Drop(ExecutableDDLElement):
    def __init__(self, partition: TableName) -> None:
        self.partition = partition


@compiles(_Lock, "postgresql")
def _lock(element: _Lock, compiler: DDLCompiler, **_: object) -> str:
    alone = "ONLY " if element.is_alone else ""
    return f"LOCK TABLE {alone}{_quoted(compiler, element.table)} IN ACCESS EXCLUSIVE MODE"


@compiles(_Detach, "postgresql")
def _detach(element: _Detach, compiler: DDLCompiler, **_: object) -> str:
    table, partition = _quoted(compiler, element.table), _quoted(compiler, element.partition)
    return f"ALTER TABLE {table} DETACH PARTITION {partition}"


@compiles(_Drop, "postgresql")
def _drop(element: _Drop, compiler: DDLCompiler, **_: object) -> str:
    return f"DROP TABLE {_quoted(compiler, element.partition)}"


def _quoted(compiler: DDLCompiler, table: TableName) -> str:
    quote = compiler.preparer.quote
    return ".".join(quote(part) for part in (table.schema, table.name) if part is not None)
