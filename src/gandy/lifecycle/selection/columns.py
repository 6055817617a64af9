"""Looking up the columns that a rule names, and how they write instants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from gandy.lifecycle.database.instants import UnreadableError
from gandy.lifecycle.selection.obstacles import Obstacle, ObstructedError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from gandy.lifecycle.contract.rules import Unit
    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import ColumnFacts, TableFacts, TableName
    from gandy.lifecycle.database.instants import Form

_COMPARED = frozenset({"per", "order_by", "terminal"})  # fields whose column is compared with values


class WrongFieldError(ValueError):
    """A field of a rule that does not fit the database."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def must_be_findable(table: TableName, column: ColumnFacts, *, field: str) -> None:
    """A statement that gives a value finds the rows that have it, as the type itself tells values apart."""
    if column.comparison.is_composite:
        message = f"{table}.{column.name} is of a composite type, whose values no statement can give"
        raise ObstructedError([Obstacle(message, "Use columns of simple types", field=field)])
    if (doubt := column.comparison.hidden) is not None:
        message = f"values of {table}.{column.name} may be compared otherwise than their type does"
        raise ObstructedError([Obstacle(f"{message}: {doubt.reason}", doubt.remedy, field=field)])


class UnjudgedError(WrongFieldError):
    """A field that cannot be judged here: the data or another contract stand in the way, not this text."""


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Finds the columns of one table; what is not there is the fault of the field that named it."""

    connection: Connection
    dialect: Dialect
    facts: TableFacts

    def find(self, field: str, name: str) -> ColumnFacts:
        """The column, or an error that names what there is."""
        if name not in self.facts.columns:
            known = ", ".join(self.facts.columns)
            raise WrongFieldError(field, f"{self.facts.name} has no column {name}; it has {known}")
        column = self.facts.columns[name]
        if field in _COMPARED:
            must_be_findable(self.facts.name, column, field=field)
        return column

    def holds(self, name: str) -> bool:
        """Whether the column has a value at all: what is empty is written in no way."""
        column = self.facts.clause.c[name]
        filled = select(1).select_from(self.facts.clause).where(column.is_not(None)).limit(1)
        return self.connection.execute(filled).one_or_none() is not None

    def form(self, field: str, name: str, *, unit: Unit | None) -> Form:
        """How the column writes instants."""
        column = self.find(field, name)
        try:
            return self.dialect.form_of(self.connection, self.facts, column, unit=unit)
        except UnreadableError as error:
            raise UnjudgedError("unit" if unit else field, str(error)) from error
        except ValueError as error:
            raise WrongFieldError("unit" if unit else field, str(error)) from error
