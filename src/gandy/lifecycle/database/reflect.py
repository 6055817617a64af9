"""Reading the catalogue: only the tables a contract names, and those that refer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.lifecycle.database.facts import (
    Catalogue,
    ColumnFacts,
    IndexFacts,
    SchemaFacts,
    TableFacts,
    TableName,
    Wanted,
    table_clause,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from gandy.lifecycle.database.dialect import Dialect


def reflect(connection: Connection, dialect: Dialect, wanted: Iterable[Wanted]) -> SchemaFacts:
    """What the catalogue says about these tables and everything that refers to them."""
    asked = list(dict.fromkeys(wanted))
    catalogue = dialect.catalogue(connection, asked)
    return _schema(dialect, catalogue, catalogue.with_referring(asked))


def reflect_all(connection: Connection, dialect: Dialect) -> SchemaFacts:
    """What the catalogue says about every application table; a partition belongs to its table."""
    catalogue = dialect.catalogue(connection, None)
    return _schema(dialect, catalogue, set(catalogue.tables))


def _schema(dialect: Dialect, catalogue: Catalogue, names: set[TableName]) -> SchemaFacts:
    tables = {name: _table(dialect, catalogue, name) for name in catalogue.tables if name in names}
    return SchemaFacts(
        catalogue.default_schema,
        tables,
        catalogue.foreign_keys,
        catalogue.search_path,
        catalogue.own_tables,
        catalogue.state,
        catalogue.state_schema,
        catalogue.may_write_state,
        catalogue.lineage,
        marks=catalogue.marks,
    )


def _table(dialect: Dialect, catalogue: Catalogue, name: TableName) -> TableFacts:
    described = catalogue.tables[name]
    is_partitioned = name in catalogue.lineage.partitioned
    key = _key(described.columns, described.primary_key, described.indexes)
    hidden = None if key or is_partitioned else dialect.row_identity()
    shown = described.columns if hidden is None else {**described.columns, hidden.name: hidden}
    return TableFacts(
        name=name,
        columns=described.columns,
        primary_key=described.primary_key,
        key=(hidden,) if hidden is not None else key,
        indexes=described.indexes,
        is_partitioned=is_partitioned,
        clause=table_clause(name, shown, dialect.stored_type),
        inheritors=catalogue.lineage.inheritors(name),
        standing=described.standing,
    )


def _key(
    columns: Mapping[str, ColumnFacts], primary_key: tuple[str, ...], indexes: tuple[IndexFacts, ...]
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
