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
    from gandy.lifecycle.selection.walks import Child, Columns, Selection


Values = tuple[object, ...]


class Untyped(UserDefinedType[Any]):
    """A value sent without a type: the database reads it as the type of what it is compared with."""

    cache_ok = True

    @override
    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return _quoted


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


UNTYPED = Untyped()


def readable(columns: Columns) -> Columns:
    """The columns in a form that can be read and stored whatever they hold.

    Infinities, ranges, intervals and types of an extension have no equal in Python: they are read as the
    database's own text, and given back as such.
    """
    return tuple(column if _is_plain(column) else cast(column, Text) for column in columns)


def type_to_bind(column: ColumnElement[Any]) -> TypeEngine[Any]:
    """The type to send a value with that `readable` gave for this column."""
    return column.type if _is_plain(column) else UNTYPED


def _is_plain(column: ColumnElement[Any]) -> bool:
    return isinstance(column.type, NullType | Integer)


def after(columns: Columns, values: Values | None) -> ColumnElement[bool]:
    """Rows that come later in this order."""
    if values is None:
        return true()
    if len(columns) == 1:
        return operand(columns[0]) > _typed(columns, values)[0]
    return tuple_(*columns) > tuple_(*_typed(columns, values))


def up_to(columns: Columns, values: Values) -> ColumnElement[bool]:
    """Rows that come no later in this order."""
    if len(columns) == 1:
        return operand(columns[0]) <= _typed(columns, values)[0]
    return tuple_(*columns) <= tuple_(*_typed(columns, values))


def equal(columns: Columns, values: Values) -> ColumnElement[bool]:
    """Rows with exactly these values; NULL is a value like any other."""
    pairs = zip(columns, _typed(columns, values), values, strict=True)
    return and_(
        true(),
        *(column.is_(None) if value is None else operand(column) == typed for column, typed, value in pairs),
    )


def among(columns: Columns, rows: Sequence[Values]) -> ColumnElement[bool]:
    """Rows whose columns are one of these."""
    if len(columns) == 1:
        return columns[0].in_([row[0] for row in rows])
    return tuple_(*columns).in_(list(rows))


def nth_row(selection: Selection, cursor: Values | None, limit: int) -> Select[Any]:
    """Where a full batch after the cursor would end."""
    return row_after(selection, cursor, literal(limit - 1, BigInteger))


def row_after(selection: Selection, cursor: Values | None, skip: ColumnElement[int]) -> Select[Any]:
    """The dead row that comes so many after the first behind the cursor."""
    return _ahead(selection, cursor).order_by(*selection.order).offset(skip).limit(1)


def last_row(selection: Selection, cursor: Values | None) -> Select[Any]:
    """Where the dead rows end."""
    return _ahead(selection, cursor).order_by(*newest_first(selection.order)).limit(1)


def first_row(selection: Selection) -> Select[Any]:
    """The dead row that comes first."""
    return _ahead(selection, None).order_by(*selection.order).limit(1)


def delete_range(selection: Selection, cursor: Values | None, end: Values) -> Delete:
    """Delete a batch; the predicate is asked again of every row, so that a renewed one survives."""
    return delete(selection.table.clause).where(in_range(selection, cursor, end))


def count_up_to(selection: Selection, most: int | None) -> Select[Any]:
    """Count the dead rows, reading at most this number of them."""
    some = select(literal(1)).select_from(selection.table.clause).where(selection.dead).limit(most)
    return select(func.count()).select_from(some.subquery())


def in_range(selection: Selection, cursor: Values | None, end: Values) -> ColumnElement[bool]:
    """The dead rows of a batch."""
    # The bounds of the batch come first: SQLite searches its index by the first that it can use.
    order = selection.order
    return and_(after(order, cursor), up_to(order, end), selection.dead)


def of_one_instant(selection: Selection, cursor: Values, more: Columns) -> Select[Any]:
    """The dead rows after the cursor that have its instant; two bounds keep the walk on the index by it."""
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
    """The column for a comparison that only the database has to understand."""
    return column if _is_plain(column) else type_coerce(column, UNTYPED)


def newest_first(columns: Columns) -> Columns:
    """The same order from its end."""
    return tuple(desc(operand(column)) for column in columns)


def _typed(columns: Columns, values: Values) -> list[ColumnElement[Any]]:
    pairs = zip(columns, values, strict=True)
    return [
        value if isinstance(value, ColumnElement) else literal(value, type_to_bind(column))
        for column, value in pairs
    ]


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
