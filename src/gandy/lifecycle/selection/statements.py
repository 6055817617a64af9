"""Statements that select and delete rows, and the addresses of single rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Delete,
    Integer,
    Select,
    Text,
    and_,
    cast,
    column,
    delete,
    desc,
    false,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    type_coerce,
)
from sqlalchemy.types import NullType, UserDefinedType
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection, FromClause
    from sqlalchemy.engine.interfaces import Dialect
    from sqlalchemy.types import TypeEngine

    from gandy.lifecycle.database.facts import TableFacts
    from gandy.lifecycle.selection.walks import Chain, Child, Columns, Selection


Values = tuple[object, ...]


class Untyped(UserDefinedType[Any]):
    """A value sent without a type: the database infers the type from the other side of the comparison."""

    cache_ok = True

    @override
    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return _quoted


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


UNTYPED = Untyped()


def readable(columns: Columns) -> Columns:
    """Return the columns in a form in which every value can be read and stored.

    Infinities, ranges, intervals and extension types have no Python equivalent: they are read as the
    database's text, and sent back as text.
    """
    return tuple(column if _is_plain(column) else cast(column, Text) for column in columns)


def type_to_bind(column: ColumnElement[Any]) -> TypeEngine[Any]:
    """Return the bind type for a value of this column that `readable` returned."""
    return column.type if _is_plain(column) else UNTYPED


def _is_plain(column: ColumnElement[Any]) -> bool:
    return isinstance(column.type, NullType | Integer)


def after(columns: Columns, values: Values | None) -> ColumnElement[bool]:
    """Return a condition: rows after these values in this order (keyset pagination)."""
    if values is None:
        return true()
    if len(columns) == 1:
        return operand(columns[0]) > _typed(columns, values)[0]
    return tuple_(*columns) > tuple_(*_typed(columns, values))


def up_to(columns: Columns, values: Values) -> ColumnElement[bool]:
    """Return a condition: rows up to and including these values in this order."""
    if len(columns) == 1:
        return operand(columns[0]) <= _typed(columns, values)[0]
    return tuple_(*columns) <= tuple_(*_typed(columns, values))


def equal(columns: Columns, values: Values) -> ColumnElement[bool]:
    """Return a condition: rows with exactly these values; NULL equals NULL."""
    pairs = zip(columns, _typed(columns, values), values, strict=True)
    return and_(
        true(),
        *(column.is_(None) if value is None else operand(column) == typed for column, typed, value in pairs),
    )


def among(columns: Columns, rows: Sequence[Values]) -> ColumnElement[bool]:
    """Return a condition: rows whose columns equal one of these tuples."""
    if len(columns) == 1:
        return columns[0].in_([row[0] for row in rows])
    return tuple_(*columns).in_(list(rows))


def nth_row(selection: Selection, cursor: Values | None, limit: int) -> Select[Any]:
    """Select the end of a full batch after the cursor."""
    return row_after(selection, cursor, literal(limit - 1, BigInteger))


def row_after(selection: Selection, cursor: Values | None, skip: ColumnElement[int]) -> Select[Any]:
    """Select the dead row that is `skip` rows after the first dead row behind the cursor."""
    return _ahead(selection, cursor).order_by(*selection.order).offset(skip).limit(1)


def last_row(selection: Selection, cursor: Values | None) -> Select[Any]:
    """Select the last dead row after the cursor."""
    return _ahead(selection, cursor).order_by(*newest_first(selection.order)).limit(1)


def first_row(selection: Selection) -> Select[Any]:
    """Select the first dead row."""
    return _ahead(selection, None).order_by(*selection.order).limit(1)


def delete_range(selection: Selection, cursor: Values | None, end: Values) -> Delete:
    """Delete a batch; the predicate is checked again for every row, so that a renewed row survives."""
    return delete(selection.table.clause).where(in_range(selection, cursor, end))


def count_up_to(selection: Selection, most: int | None) -> Select[Any]:
    """Count the dead rows, reading at most this number of them."""
    some = select(literal(1)).select_from(selection.table.clause).where(selection.dead).limit(most)
    return select(func.count()).select_from(some.subquery())


def in_range(selection: Selection, cursor: Values | None, end: Values) -> ColumnElement[bool]:
    """Return a condition: the dead rows of a batch."""
    # The bounds of the batch come first: SQLite searches its index by the first usable condition.
    order = selection.order
    return and_(after(order, cursor), up_to(order, end), selection.dead)


def of_one_instant(selection: Selection, cursor: Values, more: Columns) -> Select[Any]:
    """Select dead rows after the cursor with its instant; two bounds keep the plan on the instant's index."""
    instant, value = selection.order[:1], cursor[:1]
    is_of_it = and_(operand(instant[0]) >= _typed(instant, value)[0], up_to(instant, value))
    return (
        select(*readable(selection.order), *more)
        .where(is_of_it, after(selection.order, cursor), selection.dead)
        .order_by(*selection.order)
    )


def _ahead(selection: Selection, cursor: Values | None) -> Select[Any]:
    return select(*readable(selection.order)).where(after(selection.order, cursor), selection.dead)


def operand(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the column untyped, for a comparison that only the database interprets."""
    return column if _is_plain(column) else type_coerce(column, UNTYPED)


def newest_first(columns: Columns) -> Columns:
    """Return the reverse order."""
    return tuple(desc(operand(column)) for column in columns)


def _typed(columns: Columns, values: Values) -> list[ColumnElement[Any]]:
    pairs = zip(columns, values, strict=True)
    return [
        value if isinstance(value, ColumnElement) else literal(value, type_to_bind(column))
        for column, value in pairs
    ]


# SQLite limits the number of values in one statement.
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
    has_locks: bool  # row locks: each row then has an address besides its key

    def __len__(self) -> int:
        return len(self.addresses)

    def only(self, addresses: Sequence[Values]) -> Rows:
        """Return other rows of the same table."""
        return Rows(self.table, tuple(addresses), self.has_locks)

    def columns(self, clause: FromClause | None = None) -> Columns:
        """Return the columns of an address."""
        clause = self.table.clause if clause is None else clause
        if not self.has_locks:
            return tuple(clause.c[key.name] for key in self.table.key)
        return (cast(clause.c["tableoid"], Text), cast(clause.c["ctid"], Text))

    @property
    def most_in_one_statement(self) -> int:
        """The maximum number of rows in one statement on any database."""
        return max(1, _VALUES_IN_ONE_STATEMENT // len(self.table.key))

    def parts(self) -> Iterator[Rows]:
        """Split the rows into parts that fit into one statement."""
        if self.has_locks:
            if self.addresses:
                yield self
            return
        size = self.most_in_one_statement
        for start in range(0, len(self.addresses), size):
            yield self.only(self.addresses[start : start + size])

    def are(self, clause: FromClause) -> ColumnElement[bool]:
        """Return the condition that a row is one of these."""
        if not self.has_locks:
            return among(self.columns(clause), self.addresses)
        by_table = groupby(sorted(self.addresses, key=_table), key=_table)
        members = [_stored_in(clause, table, list(rows)) for table, rows in by_table]
        return or_(*members) if members else false()


def rows_of(table: TableFacts, *, has_locks: bool) -> Rows:
    """Return an empty set of rows of this table."""
    if has_locks and "tableoid" not in table.clause.c:
        table.clause.append_column(column("tableoid", NullType()))
    if has_locks and "ctid" not in table.clause.c:
        table.clause.append_column(column("ctid", NullType()))
    return Rows(table, (), has_locks)


def refers(
    child: Child | Chain, parents: Select[Any], clause: FromClause | None = None
) -> ColumnElement[bool]:
    """Return a condition: the child's row refers to one of these parents."""
    clause = child.table.clause if clause is None else clause
    mine = tuple(clause.c[name] for name in child.columns)
    return operand(mine[0]).in_(parents) if len(mine) == 1 else tuple_(*mine).in_(parents)


def parents_of(child: Child | Chain, rows: Rows) -> Select[Any]:
    """Select the columns of these rows that the child refers to."""
    clause = rows.table.clause.alias()
    return select(*(clause.c[name] for name in child.parent_columns)).where(rows.are(clause))


def found(connection: Connection, statement: Select[Any]) -> list[Values]:
    """Return the addresses that a statement selects."""
    return [tuple(row) for row in connection.execute(statement)]


def _table(address: Values) -> str:
    return str(address[0])


def places(addresses: Sequence[Values]) -> str:
    """Return the ctids of the rows as a PostgreSQL array literal."""
    return "{" + ",".join(f'"{row[1]}"' for row in addresses) + "}"


def stored_at(clause: FromClause, listed: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return a condition: the row has one of these ctids."""
    return clause.c["ctid"] == func.any(cast(listed, _Addresses()))


def _stored_in(clause: FromClause, table: str, addresses: Sequence[Values]) -> ColumnElement[bool]:
    is_there = stored_at(clause, literal(places(addresses), UNTYPED))
    return and_(clause.c["tableoid"] == literal(table, UNTYPED), is_there)
