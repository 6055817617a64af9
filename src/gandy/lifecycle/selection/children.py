"""References to swept tables, and the columns that rules read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, and_, exists, or_, select

from gandy.lifecycle.contract.names import in_quotes
from gandy.lifecycle.contract.tables import ChildMode, Contract, Table
from gandy.lifecycle.database.facts import ForeignKey, SchemaFacts, TableFacts, TableName
from gandy.lifecycle.database.instants import UnreadableError
from gandy.lifecycle.selection.findings import Obstacle, ObstructedError
from gandy.lifecycle.selection.walks import Chain, Child

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from gandy.lifecycle.contract.fields import Unit
    from gandy.lifecycle.contract.names import Reference
    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import ColumnFacts
    from gandy.lifecycle.database.instants import Form


class WrongFieldError(ValueError):
    """A field of a rule that does not fit the database."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def must_be_findable(table: TableName, column: ColumnFacts, *, field: str) -> None:
    """Raise an error unless a statement with a value finds exactly the rows that are equal by their type."""
    if column.comparison.is_composite:
        message = f"{table}.{column.name} is of a composite type; statements cannot pass its values"
        raise ObstructedError([Obstacle(message, "Use columns of simple types", field=field)])
    if (doubt := column.comparison.hidden) is not None:
        message = f"values of {table}.{column.name} may be compared differently from their type"
        raise ObstructedError([Obstacle(f"{message}: {doubt.reason}", doubt.remedy, field=field)])


class UnjudgedError(WrongFieldError):
    """A field that cannot be judged because of the data or another contract, not because of its text."""


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Finds the columns of one table; a missing column is an error of the field that names it."""

    connection: Connection
    dialect: Dialect
    facts: TableFacts

    def find(self, field: str, name: str) -> ColumnFacts:
        """Return the column; raise an error that lists the existing columns."""
        if name not in self.facts.columns:
            known = ", ".join(self.facts.columns)
            raise WrongFieldError(field, f"{self.facts.name} has no column {name}; it has {known}")
        return self.facts.columns[name]

    def find_compared(self, field: str, name: str) -> ColumnFacts:
        """Return a column that is compared with values; raise an error if its type does not allow that."""
        column = self.find(field, name)
        must_be_findable(self.facts.name, column, field=field)
        return column

    def holds(self, name: str) -> bool:
        """Whether the column has any value: an empty column has no form."""
        column = self.facts.clause.c[name]
        filled = select(1).select_from(self.facts.clause).where(column.is_not(None)).limit(1)
        return self.connection.execute(filled).one_or_none() is not None

    def form(self, field: str, name: str, *, unit: Unit | None) -> Form:
        """Return how the column stores instants."""
        column = self.find(field, name)
        try:
            return self.dialect.form_of(self.connection, self.facts, column, unit=unit)
        except UnreadableError as error:
            raise UnjudgedError("unit" if unit else field, str(error)) from error
        except ValueError as error:
            raise WrongFieldError("unit" if unit else field, str(error)) from error


_OFF = "not enforced (NOT ENFORCED, or its triggers are switched off)"

Slot = tuple[object, tuple[str, ...]]
Modes = dict[Slot, ChildMode]


class NotCoveredError(ValueError):
    """A reference that stops the rule; the message names it."""


def must_be_identifiable(table: TableFacts) -> None:
    """Raise an error if no key or hidden column identifies the rows that the table's rules would delete."""
    if table.key:
        return
    why = "is partitioned" if table.is_partitioned else "has columns that hide the row id of SQLite"
    raise NotCoveredError(
        f"{table.name} {why}, and has no key without NULLs: no statement can identify its rows"
    )


@dataclass(frozen=True, slots=True)
class Family:
    """The references to a table, judged against its contract."""

    contract: Contract
    schema: SchemaFacts
    declared: Table

    def children(self, parent: TableFacts, wait_for: Sequence[Reference]) -> tuple[Child, ...]:
        """Return the children to treat in the same batch; raise an error if a key is not covered."""
        _must_be_told_apart(parent)
        self._must_lead_here(parent)
        return tuple(self._walk(parent, wait_for, seen=(parent.name,)))

    def _walk(
        self, parent: TableFacts, wait_for: Sequence[Reference], *, seen: tuple[object, ...]
    ) -> Iterator[Child]:
        waited = {self._slot(reference) for reference in wait_for}
        modes = {self._slot(reference): mode for reference, mode in self.declared.child_modes}
        settled: set[object] = set()
        for key in self.schema.referring_to(parent.name):
            slot = (key.child, key.columns)
            _must_be_certain(key)
            if slot in waited:
                continue
            if key.on_delete == "SET NULL" and key.is_enforced:
                _must_be_nullable(self.schema.tables[key.child], key)
            if slot not in modes:
                raise NotCoveredError(_uncovered(key))
            _must_be_clear(parent, key)
            child = self._child(key, modes[slot], seen)
            if (*slot, key.parent_columns) not in settled:  # two keys may be identical
                settled.add((*slot, key.parent_columns))
                yield child
        if len(seen) == 1:
            yield from self._without_key(parent, modes, seen)

    def _child(self, key: ForeignKey, mode: ChildMode, seen: tuple[object, ...]) -> Child:
        child = self.schema.tables[key.child]
        if child.inheritors:
            heirs = ", ".join(map(str, child.inheritors))
            raise NotCoveredError(
                f"{key} is inherited by {heirs}, where no foreign key defines what it refers to; use wait_for"
            )
        if not child.is_partitioned:  # rows of partitions are locked by their address
            must_be_identifiable(child)
        if mode is ChildMode.SET_NULL:
            _must_be_nullable(child, key)
        if mode is ChildMode.CASCADE and not key.is_enforced:
            raise NotCoveredError(f"the foreign key {key.name} of {key} is {_OFF}, so nothing would cascade")
        if mode is ChildMode.CASCADE and key.on_delete != "CASCADE":
            raise NotCoveredError(
                f"{key} is declared cascade, but its foreign key {key.name} has ON DELETE {key.on_delete}"
            )
        nested: tuple[Child, ...] = ()
        if mode is not ChildMode.SET_NULL:
            if key.child in seen:
                raise NotCoveredError(
                    f"{key} leads back to {key.child}: use wait_for or set_null for circular references"
                )
            nested = tuple(self._walk(child, (), seen=(*seen, key.child)))
        return Child(child, key.columns, key.parent_columns, mode, nested, key.set_null_columns)

    def _without_key(
        self,
        parent: TableFacts,
        modes: Modes,
        seen: tuple[object, ...],
    ) -> Iterator[Child]:
        """Yield children that refer by convention, without a foreign key."""
        constrained = {(key.child, key.columns) for key in self.schema.foreign_keys}
        for reference, mode in self.declared.child_modes:
            if self._slot(reference) in constrained:
                continue
            child = self.find(reference)
            if mode is ChildMode.CASCADE:
                raise NotCoveredError(f"{reference} has no foreign key, so nothing would cascade")
            columns = self._primary_key(parent, child, reference)
            key = ForeignKey("", child.name, reference.columns, parent.name, columns, "NO ACTION")
            yield self._child(key, modes[self._slot(reference)], seen)

    def _must_lead_here(self, parent: TableFacts) -> None:
        """Refuse a declared child whose key refers to another table: it would be ignored silently."""
        going = {parent.name}
        while more := {key.child for key in self.schema.foreign_keys if key.parent in going} - going:
            going |= more
        for reference, _ in self.declared.child_modes:
            slot = self._slot(reference)
            keys = [key for key in self.schema.foreign_keys if (key.child, key.columns) == slot]
            if keys and not any(key.parent in going for key in keys):
                raise NotCoveredError(
                    f"{reference} refers to {keys[0].parent}, not to {parent.name} or a table below it"
                )

    def find(self, reference: Reference) -> TableFacts:
        """Return the referring table; raise an error if it or a column does not exist."""
        facts = self.schema.tables.get(self._named(reference))
        if facts is None:
            is_home = reference.schema is None and self._home is not None
            where = f" in the schema {self._home}; name another one as schema.table" if is_home else ""
            raise LookupError(f"{reference}: there is no table {reference.table}{where}")
        for column in reference.columns:
            if column not in facts.columns:
                raise LookupError(f"{reference}: {reference.table} has no column {column}")
        return facts

    @property
    def _home(self) -> str | None:
        """The schema of the table that declares the references."""
        facts = self.schema.find(self.declared.name, self.declared.schema)
        return None if facts is None else facts.name.schema

    def _named(self, reference: Reference) -> TableName:
        """Resolve a bare name to the schema of the table that declares it, and no other."""
        return TableName(reference.schema or self._home, reference.table)

    def _slot(self, reference: Reference) -> Slot:
        return (self._named(reference), reference.columns)

    def is_unreferenced(self, parent: TableFacts, reference: Reference) -> ColumnElement[bool]:
        """Return a condition: no row refers to the row by this reference."""
        child = self.find(reference)
        return and_(
            *(
                ~_refers(child, parent, zip(reference.columns, columns, strict=True))
                for columns in self._parent_columns(parent, child, reference)
            )
        )

    def chains(self, parent: TableFacts, wait_for: Iterable[Reference]) -> Iterator[Chain]:
        """Yield the references of the table to itself that keep rows."""
        for reference in wait_for:
            child = self.find(reference)
            if child is parent:
                for columns in self._parent_columns(parent, child, reference):
                    yield Chain(parent, columns, reference.columns)

    def _parent_columns(
        self, parent: TableFacts, child: TableFacts, reference: Reference
    ) -> list[tuple[str, ...]]:
        """Return the columns that the reference refers to: several if it has several keys."""
        slot = (child.name, reference.columns)
        keys = [key for key in self.schema.referring_to(parent.name) if (key.child, key.columns) == slot]
        for key in keys:
            _must_be_certain(key)
        return list(dict.fromkeys(key.parent_columns for key in keys)) or [
            self._primary_key(parent, child, reference)
        ]

    def _primary_key(self, parent: TableFacts, child: TableFacts, reference: Reference) -> tuple[str, ...]:
        if len(parent.primary_key) != len(reference.columns):
            raise LookupError(
                f"{reference} cannot refer to the key {list(parent.primary_key)} of {parent.name}"
            )
        _must_be_comparable(parent, child, reference)
        return parent.primary_key


def _refers(child: TableFacts, parent: TableFacts, pairs: Iterable[tuple[str, str]]) -> ColumnElement[bool]:
    other = child.clause.alias()
    joined = [other.c[mine] == parent.clause.c[theirs] for mine, theirs in pairs]
    if child is parent:  # a row that refers to itself does not block itself
        names = [key.name for key in parent.key]
        joined.append(or_(*(other.c[name].is_distinct_from(parent.clause.c[name]) for name in names)))
    return exists(select(1).select_from(other).where(*joined).correlate(parent.clause))


def _must_be_certain(key: ForeignKey) -> None:
    """Raise an error unless the key finds the same rows as a statement, in every child mode."""
    if key.doubt is None:
        return
    (mine, theirs), doubt = key.doubt
    message = (
        f"the foreign key {key.name or 'without a name'} of {key} may compare {key.child}.{mine} with "
        f"{key.parent}.{theirs} differently from a statement: {doubt.reason}"
    )
    raise ObstructedError([Obstacle(message, doubt.remedy, field="children")])


def _must_be_comparable(parent: TableFacts, child: TableFacts, reference: Reference) -> None:
    """Raise an error if the comparison is unclear: without a key, it alone decides which rows match."""
    for mine, theirs in zip(reference.columns, parent.primary_key, strict=True):
        doubt = child.columns[mine].comparison.against(parent.columns[theirs].comparison)
        if doubt is not None:
            message = (
                f"it is unclear which values of {child.name}.{mine} and {parent.name}.{theirs} are the same: "
                f"{doubt.reason}"
            )
            raise ObstructedError([Obstacle(message, doubt.remedy, field="children")])


def _must_be_told_apart(table: TableFacts) -> None:
    """Raise an error unless rows can be found again by the values of their key."""
    for column in table.key:
        must_be_findable(table.name, column, field="name")


def _uncovered(key: ForeignKey) -> str:
    effects = {
        "CASCADE": "would delete its rows uncounted",
        "SET NULL": "would be set to NULL",
        "SET DEFAULT": "would be set to its default",
    }
    effect = effects.get(key.on_delete, "would block the delete")
    if not key.is_enforced:
        effect = f"is {_OFF}, so its rows would be orphaned"
    return (
        f"the foreign key {key.name or 'without a name'} of {key} {effect}; add "
        f"wait_for = [{in_quotes(key)}] to the "
        f'rule, or children = {{ {in_quotes(key)} = "delete_first" }} to the table (or cascade, set_null)'
    )


def _must_be_nullable(child: TableFacts, key: ForeignKey) -> None:
    for column in key.set_null_columns or key.columns:
        if not child.columns[column].is_nullable:
            raise NotCoveredError(f"{key} would be set to NULL, but {column} is NOT NULL")
        if child.columns[column].is_generated:
            raise NotCoveredError(f"{key} would be set to NULL, but {column} is a generated column")


def _must_be_clear(parent: TableFacts, key: ForeignKey) -> None:
    """Refuse a key to one member alone: a row of another member may have the same values."""
    if key.member is None or (parent.is_partitioned and parent.is_unique_on(key.parent_columns)):
        return
    raise NotCoveredError(
        f"{key} refers to {key.member} alone, and other rows of {parent.name} may have the same "
        f"{', '.join(key.parent_columns)}; add wait_for = [{in_quotes(key)}] to the rule"
    )
