"""Rows by where they are stored: what the statements of one batch hand to each other.

An address holds only while the transaction that locked the row lasts: nothing moves a row that is locked.
It spares naming rows by keys, which may be of any type and of any number of columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Text, and_, cast, column, false, func, literal, or_, select, tuple_
from sqlalchemy.types import NullType, UserDefinedType

from gandy.lifecycle.selection.statements import UNTYPED, Values, among, operand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, FromClause, Select

    from gandy.lifecycle.database.facts import TableFacts
    from gandy.lifecycle.selection.walks import Child, Columns

# SQLite takes only so many values in one statement.
_VALUES_IN_ONE_STATEMENT = 20_000


class _Addresses(UserDefinedType[Any]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TID[]"


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one table."""

    table: TableFacts
    addresses: tuple[Values, ...]
    has_locks: bool  # of rows: each then has an address of its own beside its key

    def __len__(self) -> int:
        return len(self.addresses)

    def only(self, addresses: Sequence[Values]) -> Rows:
        """Other rows of the same table."""
        return Rows(self.table, tuple(addresses), self.has_locks)

    def columns(self, clause: FromClause | None = None) -> Columns:
        """What to select for an address."""
        clause = self.table.clause if clause is None else clause
        if not self.has_locks:
            return tuple(clause.c[key.name] for key in self.table.key)
        return (cast(clause.c["tableoid"], Text), cast(clause.c["ctid"], Text))

    @property
    def most_in_one_statement(self) -> int:
        """How many rows of the table one statement can name on any database."""
        return max(1, _VALUES_IN_ONE_STATEMENT // len(self.table.key))

    def parts(self) -> Iterator[Rows]:
        """The same rows in parts that one statement can name."""
        if self.has_locks:
            if self.addresses:
                yield self
            return
        size = self.most_in_one_statement
        for start in range(0, len(self.addresses), size):
            yield self.only(self.addresses[start : start + size])

    def are(self, clause: FromClause) -> ColumnElement[bool]:
        """The condition that a row is one of these."""
        if not self.has_locks:
            return among(self.columns(clause), self.addresses)
        by_table = groupby(sorted(self.addresses, key=_table), key=_table)
        members = [_stored_in(clause, table, list(rows)) for table, rows in by_table]
        return or_(*members) if members else false()


def rows_of(table: TableFacts, *, has_locks: bool) -> Rows:
    """No rows yet of this table."""
    if has_locks and "tableoid" not in table.clause.c:
        table.clause.append_column(column("tableoid", NullType()))
    if has_locks and "ctid" not in table.clause.c:
        table.clause.append_column(column("ctid", NullType()))
    return Rows(table, (), has_locks)


def refers(child: Child, parents: Select[Any], clause: FromClause | None = None) -> ColumnElement[bool]:
    """The child's row refers to one of these parents."""
    clause = child.table.clause if clause is None else clause
    mine = tuple(clause.c[name] for name in child.columns)
    return operand(mine[0]).in_(parents) if len(mine) == 1 else tuple_(*mine).in_(parents)


def parents_of(child: Child, rows: Rows) -> Select[Any]:
    """What the child's rows refer to in these rows."""
    clause = rows.table.clause.alias()
    return select(*(clause.c[name] for name in child.parent_columns)).where(rows.are(clause))


def found(connection: Connection, statement: Select[Any]) -> list[Values]:
    """The addresses that a statement selects."""
    return [tuple(row) for row in connection.execute(statement)]


def _table(address: Values) -> str:
    return str(address[0])


def places(addresses: Sequence[Values]) -> str:
    """Where rows are within their table, as PostgreSQL writes an array."""
    return "{" + ",".join(f'"{row[1]}"' for row in addresses) + "}"


def stored_at(clause: FromClause, listed: ColumnElement[Any]) -> ColumnElement[bool]:
    """The row is at one of these places."""
    return clause.c["ctid"] == func.any(cast(listed, _Addresses()))


def _stored_in(clause: FromClause, table: str, addresses: Sequence[Values]) -> ColumnElement[bool]:
    is_there = stored_at(clause, literal(places(addresses), UNTYPED))
    return and_(clause.c["tableoid"] == literal(table, UNTYPED), is_there)
