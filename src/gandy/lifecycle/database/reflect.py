"""Reading the catalogue: only the tables a contract names, and those that refer to them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import SAWarning

from gandy.lifecycle.database.facts import (
    OPEN,
    ColumnFacts,
    IndexFacts,
    SchemaFacts,
    Standing,
    TableFacts,
    TableName,
    table_clause,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy.engine.interfaces import (
        ReflectedColumn,
        ReflectedIndex,
        ReflectedUniqueConstraint,
    )

    from gandy.lifecycle.database.dialect import Dialect

Wanted = tuple[str | None, str]


def reflect(connection: Connection, dialect: Dialect, wanted: Iterable[Wanted]) -> SchemaFacts:
    """What the catalogue says about these tables and everything that refers to them."""
    catalogue = _Catalogue(connection, dialect)
    return catalogue.schema(catalogue.with_referring(wanted))


def reflect_all(connection: Connection, dialect: Dialect) -> SchemaFacts:
    """What the catalogue says about every application table; a partition belongs to its table."""
    catalogue = _Catalogue(connection, dialect)
    return catalogue.schema(catalogue.names())


class _Catalogue:
    """One reading of the catalogue."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self._inspector = inspect(connection)
        self._schemas = dialect.user_schemas(connection)
        self._default = None if None in self._schemas else self._inspector.default_schema_name
        self._search_path = tuple(dialect.search_path(connection))
        self._lineage = dialect.lineage(connection)

        self._keys = tuple(dialect.foreign_keys(connection, self._lineage))

    def names(self) -> set[TableName]:
        """Every table that the role can look at."""
        found = {
            TableName(schema, name)
            for schema in self._schemas
            for name in self._inspector.get_table_names(schema=schema)
        }
        return found - self._lineage.partitions

    def with_referring(self, wanted: Iterable[Wanted]) -> set[TableName]:
        """These tables and all that refer to them, at every depth."""
        found = {name for each in wanted for name in self._meant(each)}
        while more := {key.child for key in self._keys if key.parent in found} - found:
            found |= more
        return found

    def schema(self, names: set[TableName]) -> SchemaFacts:
        standings = self._dialect.standings(self._connection, names)
        tables: dict[TableName, TableFacts] = {}
        for schema in {name.schema for name in names}:
            tables |= self._tables(schema, {name.name for name in names if name.schema == schema}, standings)
        own_tables = self._dialect.own_tables(self._connection)
        return SchemaFacts(self._default, tables, self._keys, self._search_path, own_tables)

    def _meant(self, wanted: Wanted) -> Iterator[TableName]:
        """A name without a schema may mean a table of any schema on the search path."""
        schema, name = wanted
        schemas = [schema] if schema is not None else [*self._search_path, self._default]
        return (TableName(each, name) for each in schemas)

    def _tables(
        self, schema: str | None, names: set[str], standings: Mapping[TableName, Standing]
    ) -> dict[TableName, TableFacts]:
        present = sorted(names.intersection(self._inspector.get_table_names(schema=schema)))
        if not present:
            return {}
        columns = self._inspector.get_multi_columns(schema=schema, filter_names=present)
        keys = self._inspector.get_multi_pk_constraint(schema=schema, filter_names=present)
        with warnings.catch_warnings(action="ignore", category=SAWarning):  # of indexes on expressions
            indexes = self._inspector.get_multi_indexes(schema=schema, filter_names=present)
            uniques = self._inspector.get_multi_unique_constraints(schema=schema, filter_names=present)
        return {
            TableName(schema, slot[1]): self._table(
                TableName(schema, slot[1]),
                columns={found["name"]: _column(found) for found in columns[slot]},
                primary_key=tuple(keys[slot]["constrained_columns"]) if slot in keys else (),
                indexes=(*map(_index, indexes.get(slot, ())), *map(_unique, uniques.get(slot, ()))),
                standing=standings.get(TableName(schema, slot[1]), OPEN),
            )
            for slot in columns
        }

    def _table(
        self,
        name: TableName,
        *,
        columns: dict[str, ColumnFacts],
        primary_key: tuple[str, ...],
        indexes: tuple[IndexFacts, ...],
        standing: Standing,
    ) -> TableFacts:
        is_partitioned = name in self._lineage.partitioned
        key = _key(columns, primary_key, indexes)
        hidden = None if key or is_partitioned else self._dialect.row_identity()
        shown = columns if hidden is None else {**columns, hidden.name: hidden}
        return TableFacts(
            name=name,
            columns=columns,
            primary_key=primary_key,
            key=(hidden,) if hidden is not None else key,
            indexes=indexes,
            is_partitioned=is_partitioned,
            clause=table_clause(name, shown, self._dialect.stored_type),
            inheritors=self._lineage.inheritors(name),
            standing=standing,
        )


def _column(found: ReflectedColumn) -> ColumnFacts:
    return ColumnFacts(found["name"], found["type"], found["nullable"])


def _index(found: ReflectedIndex) -> IndexFacts:
    options = found.get("dialect_options", {})
    return IndexFacts(
        name=found["name"] or "",
        columns=tuple(column or "" for column in found["column_names"]),  # an expression has no name
        is_unique=bool(found["unique"]),
        is_partial=any(option.endswith("_where") and options[option] is not None for option in options),
    )


def _unique(found: ReflectedUniqueConstraint) -> IndexFacts:
    return IndexFacts(found["name"] or "", tuple(found["column_names"]), is_unique=True, is_partial=False)


def _key(
    columns: dict[str, ColumnFacts], primary_key: tuple[str, ...], indexes: tuple[IndexFacts, ...]
) -> tuple[ColumnFacts, ...]:
    """The primary key, or else a unique one whose columns are never NULL."""
    if primary_key:
        return tuple(columns[name] for name in primary_key)
    for index in indexes:
        known = tuple(columns[name] for name in index.columns if name in columns)
        whole = len(known) == len(index.columns) and not any(column.is_nullable for column in known)
        if index.is_unique and not index.is_partial and whole:
            return known
    return ()
