"""PostgreSQL's range partitions: which there are, where each ends, how one goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.ddl import ExecutableDDLElement

from gandy.lifecycle.database.dialect import Partition
from gandy.lifecycle.database.facts import TableFacts, TableName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.sql.compiler import DDLCompiler

_MEMBERS = text(
    "SELECT child.relname FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid"
    " JOIN pg_class AS parent ON parent.oid = inhparent JOIN pg_namespace AS space"
    " ON space.oid = parent.relnamespace WHERE parent.relname = :table AND space.nspname = :schema"
)
_TABLES = text(
    "SELECT space.nspname, relation.relname, relation.relkind = 'p', relation.relispartition"
    " FROM pg_class AS relation JOIN pg_namespace AS space ON space.oid = relation.relnamespace"
    " WHERE relation.relkind IN ('r', 'p') AND (relation.relkind = 'p' OR relation.relispartition)"
)
_RANGES = text(
    "SELECT child_space.nspname, child.relname, greatest(child.reltuples, 0)::bigint,"
    " substring(pg_get_expr(child.relpartbound, child.oid) FROM 'TO \\(''([^'']+)''\\)$')"
    " AS bound FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid"
    " JOIN pg_namespace AS child_space ON child_space.oid = child.relnamespace"
    " JOIN pg_class AS parent ON parent.oid = inhparent"
    " JOIN pg_namespace AS space ON space.oid = parent.relnamespace"
    " JOIN pg_partitioned_table AS layout ON layout.partrelid = parent.oid"
    " JOIN pg_attribute AS field ON field.attrelid = parent.oid AND field.attnum = layout.partattrs[0]"
    " WHERE parent.relname = :table AND space.nspname = :schema AND field.attname = :column"
    " AND layout.partstrat = 'r' AND layout.partnatts = 1"
    " AND pg_get_expr(child.relpartbound, child.oid) ~ 'TO \\(''[^'']+''\\)$'"
)


class PostgresPartitions:
    """What there is to know about partitions."""

    def partitioned_tables(self, connection: Connection) -> tuple[set[TableName], set[TableName]]:
        """The partitioned tables, and the partitions of all of them."""
        rows = connection.execute(_TABLES).all()
        partitioned = {TableName(schema, name) for schema, name, is_parent, _ in rows if is_parent}
        members = {TableName(schema, name) for schema, name, _, is_member in rows if is_member}
        return partitioned, members

    def member_names(self, connection: Connection, table: TableName) -> list[str]:
        """The names of the table's partitions."""
        found = connection.execute(_MEMBERS, {"table": table.name, "schema": table.schema})
        return list(found.scalars())

    def partitions(self, connection: Connection, table: TableFacts, column: str) -> Sequence[Partition]:
        """The range partitions of the table by this column that end somewhere."""
        names = {"table": table.name.name, "schema": table.name.schema, "column": column}
        return [
            Partition(TableName(schema, name), bound, int(rows))
            for schema, name, rows, bound in connection.execute(_RANGES, names)
        ]

    def lock_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        """The table first, as every statement of the application does: the other way round deadlocks."""
        connection.execute(_Lock(table, is_alone=True))
        connection.execute(_Lock(partition, is_alone=False))

    def drop_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        """Detach and drop in the batch's own transaction, whose lock timeout lets other work pass."""
        connection.execute(_Detach(table, partition))
        connection.execute(_Drop(partition))


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
