"""Facts from the database catalogue: columns, keys, triggers, and equality of values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import TableClause, column, table
from sqlalchemy.types import TypeEngine

from gandy.lifecycle.contract.names import spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from gandy.lifecycle.database.dialect import Dialect


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a comparison may differ from the database's own, and the remedy."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The properties that decide how a statement compares the values of a column."""

    kind: str = ""  # columns of one kind are compared alike
    takes: frozenset[str] = frozenset()  # other kinds of referring columns that are compared alike
    collation: str = ""
    hidden: Doubt | None = None  # a statement does not find the type's own equality
    is_composite: bool = False  # its values cannot be passed to a statement

    def against(self, parent: Comparison) -> Doubt | None:
        """Return the doubt about comparing this column with the column of the parent that it refers to."""
        if self.hidden is not None or parent.hidden is not None:
            return self.hidden or parent.hidden
        if self.collation != parent.collation:
            return different_collations(self.collation, parent.collation)
        if self.kind != parent.kind and self.kind not in parent.takes:
            return different_types(self.kind, parent.kind)
        return None


PLAIN = Comparison()


def different_collations(mine: str, theirs: str) -> Doubt:
    """Return the doubt for two columns with different collations."""
    reason = f"their collations are {mine or 'none'} and {theirs or 'none'}"
    return Doubt(reason, "Give both columns the same collation")


def different_types(mine: str, theirs: str) -> Doubt:
    """Return the doubt for two columns of which one is converted before the comparison."""
    reason = f"their types are {mine or 'none'} and {theirs or 'none'}"
    return Doubt(reason, "Give both columns the same type")


ColumnType = TypeEngine[Any]
Wanted = tuple[str | None, str]


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's name; the schema is None where the database has none."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column's type, as the database reports it; a domain counts as its base type."""

    name: str
    type: ColumnType
    is_nullable: bool
    is_generated: bool = False
    comparison: Comparison = PLAIN


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """An index by its columns; a partial index has a predicate."""

    name: str
    columns: tuple[str, ...]
    is_unique: bool
    is_partial: bool
    definition: str = ""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns of a child that refer to columns of a parent."""

    name: str
    child: TableName
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    on_delete: str  # NO ACTION, RESTRICT, CASCADE, SET NULL or SET DEFAULT
    set_null_columns: tuple[str, ...] = ()  # of ON DELETE SET NULL (columns); () means all
    is_deferred: bool = False
    member: TableName | None = None  # the key refers to this partition or inheriting table of the parent only
    is_enforced: bool = True
    doubt: tuple[tuple[str, str], Doubt] | None = None  # columns that a statement may compare differently

    def __str__(self) -> str:
        return spelled((self.child.schema, self.child.name), self.columns)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger, or a rule of PostgreSQL, that fires when rows of a table are deleted or updated."""

    table: TableName
    name: str
    may_keep: bool = True  # it may keep the deleted row, without an error
    columns: frozenset[str] = frozenset()  # whose update fires it; empty means all
    is_instead: bool = False  # a rule that replaces the statement
    is_deferrable: bool = False  # it may fire at the commit only

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The role's privileges on a table, and the triggers of its deletes and updates."""

    role: str = ""
    may_enter: bool = True  # USAGE on the schema
    may_delete: bool = True
    owns: bool = True  # the table and all its partitions
    unreadable: frozenset[str] = frozenset()  # columns that the role may not SELECT
    unwritable: frozenset[str] = frozenset()  # columns that the role may not UPDATE
    has_row_security: bool = False  # active for this role: rows may be hidden from it
    is_silent: bool = False  # the session fires no ordinary triggers, nor those of foreign keys
    untold: frozenset[str] = frozenset()  # DELETE, UPDATE: published without a replica identity
    delete_triggers: tuple[Trigger, ...] = ()
    update_triggers: tuple[Trigger, ...] = ()

    def fired_by_update(self, columns: Iterable[str]) -> tuple[Trigger, ...]:
        """Return the triggers on writes to these columns; each may restore the old values."""
        written = set(columns)
        return tuple(each for each in self.update_triggers if not each.columns or each.columns & written)

    @property
    def is_readable(self) -> bool:
        """Whether the role may read every column."""
        return self.may_enter and not self.unreadable


OPEN = Standing()


@dataclass(slots=True)
class Lineage:
    """Which tables are partitions of which, and which inherit from which."""

    partitioned: set[TableName] = field(default_factory=set)
    partitions: set[TableName] = field(default_factory=set)
    foreign: set[TableName] = field(default_factory=set)  # tables whose rows are on another server
    parents: dict[TableName, list[TableName]] = field(default_factory=dict)
    members: dict[TableName, list[TableName]] = field(default_factory=dict)

    def ancestors(self, table: TableName) -> Iterator[TableName]:
        """The tables whose rows include the table's own."""
        for parent in self.parents.get(table, ()):
            yield parent
            yield from self.ancestors(parent)

    def descendants(self, table: TableName) -> Iterator[TableName]:
        """The partitions and inheriting tables at every depth."""
        for member in self.members.get(table, ()):
            yield member
            yield from self.descendants(member)

    def elsewhere(self, table: TableName) -> tuple[TableName, ...]:
        """The partitions and inheriting tables whose rows are on another server."""
        return tuple(sorted({each for each in self.descendants(table) if each in self.foreign}))

    def inheritors(self, table: TableName) -> tuple[TableName, ...]:
        """The tables that inherit from it and are not partitions."""
        return tuple(sorted({each for each in self.descendants(table) if each not in self.partitions}))


@dataclass(frozen=True, slots=True)
class Described:
    """The catalogue's description of one table."""

    columns: Mapping[str, ColumnFacts]
    primary_key: tuple[str, ...] = ()
    indexes: tuple[IndexFacts, ...] = ()
    standing: Standing = OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """One reading of the catalogue: the wanted tables, and the keys and lineage of all tables."""

    default_schema: str | None
    search_path: tuple[str | None, ...]
    tables: Mapping[TableName, Described]
    foreign_keys: tuple[ForeignKey, ...]
    lineage: Lineage = field(default_factory=Lineage)
    own_tables: frozenset[TableName] = frozenset()
    state: frozenset[tuple[str, str]] = frozenset()
    state_schema: str | None = None
    may_write_state: bool = True
    marks: Mapping[TableName, str] = field(default_factory=dict)

    def meant(self, wanted: Wanted) -> Iterator[TableName]:
        """A name without a schema may mean a table of any schema on the search path."""
        schema, name = wanted
        schemas = [schema] if schema is not None else [*self.search_path, self.default_schema]
        return (TableName(each, name) for each in schemas)

    def with_referring(self, wanted: Iterable[Wanted]) -> set[TableName]:
        """These tables and all that refer to them, at every depth."""
        found = {name for each in wanted for name in self.meant(each)}
        while more := {key.child for key in self.foreign_keys if key.parent in found} - found:
            found |= more
        return found


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Columns, the key that identifies rows, and indexes of one table."""

    name: TableName
    columns: Mapping[str, ColumnFacts]
    primary_key: tuple[str, ...]
    key: tuple[ColumnFacts, ...]
    indexes: tuple[IndexFacts, ...]
    is_partitioned: bool
    clause: TableClause
    inheritors: tuple[TableName, ...] = ()  # tables that inherit from it and are not partitions
    standing: Standing = OPEN
    samples: dict[str, list[object]] = field(default_factory=dict)  # values that were read, by column

    def has_index_on(self, columns: tuple[str, ...]) -> bool:
        """Whether a full index starts with these columns, in any order."""
        wanted = set(columns)
        leads = [self.primary_key, *(index.columns for index in self.indexes if not index.is_partial)]
        return any(set(lead[: len(columns)]) == wanted for lead in leads)

    @property
    def may_keep_rows(self) -> bool:
        """Whether a trigger may keep a deleted row without an error."""
        return any(trigger.may_keep for trigger in self.standing.delete_triggers) and not self.inheritors

    def index_columns(self, name: str | None) -> tuple[str, ...] | None:
        """The columns of an index by its name; None if the catalogue does not list it."""
        return next((index.columns for index in self.indexes if index.name == name), None)

    @property
    def fingerprint(self) -> Hashable:
        """Everything that determines the access path to rows."""
        columns = tuple(
            (column.name, str(column.type), column.is_nullable) for column in self.columns.values()
        )
        return self.name, columns, self.primary_key, self.indexes

    def is_unique_on(self, columns: tuple[str, ...]) -> bool:
        """Whether a unique key has exactly these columns."""
        uniques = [index.columns for index in self.indexes if index.is_unique and not index.is_partial]
        return any(set(unique) == set(columns) for unique in [self.primary_key, *uniques])


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """The tables that concern a contract, and every foreign key between them."""

    default_schema: str | None
    tables: Mapping[TableName, TableFacts]
    foreign_keys: tuple[ForeignKey, ...]
    search_path: tuple[str | None, ...] = ()
    own_tables: frozenset[TableName] = field(default_factory=frozenset)  # of Gandy itself
    state: frozenset[tuple[str, str]] = frozenset()  # columns of the lifecycle's own tables, if readable
    state_schema: str | None = None  # their schema; None on SQLite, and before they exist
    may_write_state: bool = True
    lineage: Lineage = field(default_factory=Lineage)
    absent: frozenset[Wanted] = frozenset()  # tables with `keep` rules that do not exist
    marks: Mapping[TableName, str] = field(default_factory=dict)  # as judged, for `Dialect.unchanged`

    def kin(self, table: TableName) -> set[TableName]:
        """The table with all tables that share its rows: its ancestors, partitions and inheriting tables."""
        return {table, *self.lineage.ancestors(table), *self.lineage.descendants(table)}

    def find(self, name: str, schema: str | None = None) -> TableFacts | None:
        """Return the table of this name or None; without a schema, the first on the search path."""
        found = (self.tables.get(each) for each in self.meant(name, schema))
        return next((facts for facts in found if facts is not None), None)

    def meant(self, name: str, schema: str | None = None) -> Iterator[TableName]:
        """Yield the tables that a name may mean, whether they were read or not."""
        schemas = [schema] if schema is not None else [*self.search_path, self.default_schema]
        return (TableName(each, name) for each in schemas)

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


def reflect(connection: Connection, dialect: Dialect, wanted: Iterable[Wanted]) -> SchemaFacts:
    """Read these tables and all tables that refer to them from the catalogue."""
    asked = list(dict.fromkeys(wanted))
    catalogue = dialect.catalogue(connection, asked)
    return _schema(dialect, catalogue, catalogue.with_referring(asked))


def reflect_all(connection: Connection, dialect: Dialect) -> SchemaFacts:
    """Read every application table from the catalogue; a partition belongs to its table."""
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
    hidden = None if key or is_partitioned else dialect.row_identity(described.columns)
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
    """The primary key, or else a unique key whose columns are never NULL."""
    if primary_key:
        return tuple(columns[name] for name in primary_key)
    for index in indexes:
        known = tuple(columns[name] for name in index.columns if name in columns)
        whole = len(known) == len(index.columns) and not any(column.is_nullable for column in known)
        if index.is_unique and not index.is_partial and whole:
            return known
    return ()
