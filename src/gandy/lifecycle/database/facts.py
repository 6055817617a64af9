"""What the catalogue says about the tables of a contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import TableClause, column, table
from sqlalchemy.types import TypeEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ColumnType = TypeEngine[Any]


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's name; the schema is None where the database has none."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column's type, as the database reports it."""

    name: str
    type: ColumnType
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """An index by its columns; a partial one has a predicate."""

    name: str
    columns: tuple[str, ...]
    is_unique: bool
    is_partial: bool


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns of a child that refer to columns of a parent."""

    name: str
    child: TableName
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    on_delete: str

    def __str__(self) -> str:
        return f"{self.child}.{','.join(self.columns)}"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Columns, the key that tells rows apart, and indexes of one table."""

    name: TableName
    columns: Mapping[str, ColumnFacts]
    primary_key: tuple[str, ...]
    key: tuple[ColumnFacts, ...]
    indexes: tuple[IndexFacts, ...]
    is_partitioned: bool
    clause: TableClause

    def has_index_on(self, columns: tuple[str, ...]) -> bool:
        """Whether a full index starts with these columns, in any order."""
        wanted = set(columns)
        leads = [self.primary_key, *(index.columns for index in self.indexes if not index.is_partial)]
        return any(set(lead[: len(columns)]) == wanted for lead in leads)

    def index_columns(self, name: str | None) -> tuple[str, ...] | None:
        """The columns of an index by its name; None where the catalogue lists no such one."""
        return next((index.columns for index in self.indexes if index.name == name), None)

    def is_unique_on(self, columns: tuple[str, ...]) -> bool:
        """Whether a key holds exactly these columns unique."""
        uniques = [index.columns for index in self.indexes if index.is_unique and not index.is_partial]
        return any(set(unique) == set(columns) for unique in [self.primary_key, *uniques])


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """The tables that a contract has to do with, and every foreign key between them."""

    default_schema: str | None
    tables: Mapping[TableName, TableFacts]
    foreign_keys: tuple[ForeignKey, ...]

    def find(self, name: str, schema: str | None = None) -> TableFacts | None:
        """The table of this name, or None."""
        return self.tables.get(TableName(schema or self.default_schema, name))

    def referring_to(self, parent: TableName) -> tuple[ForeignKey, ...]:
        """The foreign keys whose rows refer to the table's rows."""
        return tuple(key for key in self.foreign_keys if key.parent == parent)


def table_clause(
    name: TableName, columns: Mapping[str, ColumnFacts], stored: Callable[[ColumnType], ColumnType]
) -> TableClause:
    """The table as SQLAlchemy quotes and types it."""
    return table(
        name.name,
        *(column(facts.name, stored(facts.type)) for facts in columns.values()),
        schema=name.schema,
    )
