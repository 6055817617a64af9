"""Holds: a value keeps a row, and all rows whose deletion would also delete that row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Float,
    Integer,
    Numeric,
    Text,
    and_,
    cast,
    exists,
    false,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.types import NullType

from gandy.lifecycle.contract.tables import ChildMode, Contract, Table
from gandy.lifecycle.database.facts import TableName
from gandy.lifecycle.selection.children import UnjudgedError, WrongFieldError, must_be_findable
from gandy.lifecycle.selection.statements import UNTYPED, operand
from gandy.lifecycle.state.holds import REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import FromClause

    from gandy.lifecycle.contract.fields import Scalar
    from gandy.lifecycle.contract.rules import Keep
    from gandy.lifecycle.database.facts import SchemaFacts, TableFacts
    from gandy.lifecycle.selection.walks import Child

_FALSE = ("", "0", "0.0", "f", "false", "n", "no", "off")
_TRUE = ("1", "1.0", "t", "true", "y", "yes", "on")


@dataclass(frozen=True, slots=True)
class Holds:
    """The keep rules of every contract of one database."""

    contracts: tuple[Contract, ...]
    schema: SchemaFacts

    def keeps(self, facts: TableFacts) -> Iterator[Keep]:
        """Yield the `keep` rules for this table; raise an error if a column is missing."""
        kin = self.schema.kin(facts.name)
        for contract in self.contracts:
            for table in contract.tables:
                if (table.schema, table.name) in self.schema.absent:
                    _must_not_be_meant(facts, table, contract)
                if kin.isdisjoint(self._meant(table)):
                    continue
                for keep in table.keeps:
                    _must_fit(facts, keep, contract)
                    _must_be_judged(facts, keep)
                    yield keep

    def _meant(self, table: Table) -> list[TableName]:
        """Return the table, or every table that a name without a schema may mean."""
        found = self.schema.find(table.name, table.schema)
        if found is not None:
            return [found.name]
        bare = [*self.schema.search_path, self.schema.default_schema]
        schemas = bare if table.schema is None else [table.schema]
        return [TableName(each, table.name) for each in schemas]

    def not_held(self, facts: TableFacts) -> Iterator[ColumnElement[bool]]:
        """Yield conditions: the row itself is not held."""
        for keep in self.keeps(facts):
            yield ~is_held(facts.clause, keep)

    def none_held_below(self, facts: TableFacts, children: Sequence[Child]) -> Iterator[ColumnElement[bool]]:
        """Yield conditions: no dependent row is held, at any depth."""
        for held in self._held_below(facts.clause, children):
            yield ~held

    def _held_below(self, parent: FromClause, children: Sequence[Child]) -> Iterator[ColumnElement[bool]]:
        for child in children:
            if child.mode is ChildMode.SET_NULL:
                continue
            other = child.table.clause.alias()
            held = [is_held(other, keep) for keep in self.keeps(child.table)]
            held += self._held_below(other, child.children)
            if held:
                pairs = zip(child.columns, child.parent_columns, strict=True)
                joined = [other.c[mine] == parent.c[theirs] for mine, theirs in pairs]
                yield exists(select(1).select_from(other).where(*joined, or_(*held)).correlate(parent))


def is_held(table: FromClause, keep: Keep) -> ColumnElement[bool]:
    """Return a condition: a value of the row holds it; never unknown, and NULL does not hold."""
    column = table.c[keep.column]
    return and_(column.is_not(None), _matches(column, keep))


def any_held(table: FromClause, keeps: Iterable[Keep]) -> ColumnElement[bool]:
    """Return a condition: one of these rules holds the row."""
    return or_(false(), *(is_held(table, keep) for keep in keeps))


def _matches(column: ColumnElement[Any], keep: Keep) -> ColumnElement[bool]:
    if isinstance(column.type, Boolean):
        return column == literal(_as_boolean(keep), Boolean)
    if isinstance(keep.equals, bool):
        return _is_not_clearly(column, not keep.equals)
    if isinstance(column.type, NullType):
        return _has_value(column, keep.equals)
    return operand(column) == literal(str(keep.equals), UNTYPED)  # the database casts it to the column's type


def _is_not_clearly(column: ColumnElement[Any], value: bool) -> ColumnElement[bool]:  # noqa: FBT001
    """Return a condition: every value holds the row unless it clearly means `value`."""
    if isinstance(column.type, Integer | Numeric | Float):
        return column != int(value)
    return func.lower(cast(column, Text)).not_in(_TRUE if value else _FALSE)


def _has_value(column: ColumnElement[Any], equals: Scalar) -> ColumnElement[bool]:
    """Return a condition: the same value, stored as text or as a number; SQLite distinguishes '5' and 5."""
    if isinstance(equals, str):
        return cast(column, Text) == equals
    texts = {str(equals), str(float(equals)), f"{equals:.0f}" if float(equals).is_integer() else str(equals)}
    return or_(cast(column, Text).in_(sorted(texts)), column == literal(equals, NullType()))


def _as_boolean(keep: Keep) -> bool:
    word = str(keep.equals).casefold()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise WrongFieldError(
        "keep", f"{keep.column} is boolean, so equals = {keep.equals!r} would hold no row; use true or false"
    )


def _must_not_be_meant(facts: TableFacts, table: Table, contract: Contract) -> None:
    """Raise an error if a missing table with holds may have been renamed to this one."""
    for keep in table.keeps:
        if keep.column in facts.columns:
            raise UnjudgedError(
                "keep",
                f"{contract.where} keeps rows of {table.label} by {keep.column}; there is no such table any "
                f"more, and {facts.name} has that column. If it was renamed, name it there; if the contract "
                f"is gone: gandy lifecycle forget {contract.name}",
            )


def _must_be_judged(facts: TableFacts, keep: Keep) -> None:
    if not isinstance(keep.equals, bool):
        must_be_findable(facts.name, facts.columns[keep.column], field="keep")


def _must_fit(facts: TableFacts, keep: Keep, contract: Contract) -> None:
    """Raise an error for an invalid hold of another contract: it stops only the rules it may apply to."""
    is_gone = contract.source == REMEMBERED
    remedy = f"; if that contract is gone: gandy lifecycle forget {contract.name}" if is_gone else ""
    if keep.column not in facts.columns:
        known = ", ".join(facts.columns)
        raise UnjudgedError(
            "keep",
            f"{facts.name} has no column {keep.column}, by which {contract.where} keeps rows; it has {known}"
            f"{remedy}",
        )
    try:
        is_held(facts.clause, keep)
    except WrongFieldError as error:
        raise UnjudgedError("keep", f"{error}, as {contract.where} does{remedy}") from error
