"""Looking up the columns that a rule names, and how they write instants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from gandy.lifecycle.database.instants import UnreadableError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from gandy.lifecycle.contract.rules import Unit
    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import ColumnFacts, TableFacts
    from gandy.lifecycle.database.instants import Form


class WrongFieldError(ValueError):
    """A field of a rule that does not fit the database."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


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
        return self.facts.columns[name]

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
