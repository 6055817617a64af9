"""The statements of a sweep over application tables, built with SQLAlchemy: no name is ever text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Delete,
    Select,
    and_,
    delete,
    func,
    literal,
    select,
    true,
    tuple_,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.lifecycle.selection.walks import Columns, Selection

Values = tuple[object, ...]


def after(columns: Columns, values: Values | None) -> ColumnElement[bool]:
    """Rows that come later in this order."""
    if values is None:
        return true()
    if len(columns) == 1:
        return columns[0] > _typed(columns, values)[0]
    return tuple_(*columns) > tuple_(*_typed(columns, values))


def up_to(columns: Columns, values: Values) -> ColumnElement[bool]:
    """Rows that come no later in this order."""
    if len(columns) == 1:
        return columns[0] <= _typed(columns, values)[0]
    return tuple_(*columns) <= tuple_(*_typed(columns, values))


def equal(columns: Columns, values: Values) -> ColumnElement[bool]:
    """Rows with exactly these values."""
    pairs = zip(columns, _typed(columns, values), strict=True)
    return and_(true(), *(column == value for column, value in pairs))


def among(columns: Columns, rows: Sequence[Values]) -> ColumnElement[bool]:
    """Rows whose columns are one of these."""
    if len(columns) == 1:
        return columns[0].in_([row[0] for row in rows])
    return tuple_(*columns).in_([tuple_(*_typed(columns, row)) for row in rows])


def nth_row(selection: Selection, cursor: Values | None, limit: int) -> Select[Any]:
    """Where a full batch after the cursor would end."""
    return row_after(selection, cursor, literal(limit - 1, BigInteger))


def row_after(selection: Selection, cursor: Values | None, skip: ColumnElement[int]) -> Select[Any]:
    """The dead row that comes so many after the first behind the cursor."""
    return _ahead(selection, cursor).order_by(*selection.order).offset(skip).limit(1)


def last_row(selection: Selection, cursor: Values | None) -> Select[Any]:
    """Where the dead rows end."""
    return _ahead(selection, cursor).order_by(*(column.desc() for column in selection.order)).limit(1)


def first_row(selection: Selection) -> Select[Any]:
    """The dead row that comes first."""
    return _ahead(selection, None).order_by(*selection.order).limit(1)


def keys_in(selection: Selection, cursor: Values | None, end: Values) -> Select[Any]:
    """The keys of a batch, locked where the database locks rows, so that children go with certainty."""
    return (
        select(*selection.key)
        .where(_in_range(selection, cursor, end))
        .order_by(*selection.order)
        .with_for_update()
    )


def delete_range(selection: Selection, cursor: Values | None, end: Values) -> Delete:
    """Delete a batch; the predicate is asked again of every row, so that a renewed one survives."""
    return delete(selection.table.clause).where(_in_range(selection, cursor, end))


def delete_keys(selection: Selection, keys: Sequence[Values]) -> Delete:
    """Delete the rows of these keys that are still dead."""
    return delete(selection.table.clause).where(among(selection.key, keys), selection.dead)


def count_up_to(selection: Selection, most: int) -> Select[Any]:
    """How many dead rows there are, reading no more than so many."""
    some = select(literal(1)).select_from(selection.table.clause).where(selection.dead).limit(most)
    return select(func.count()).select_from(some.subquery())


def _ahead(selection: Selection, cursor: Values | None) -> Select[Any]:
    return select(*selection.order).where(selection.dead, after(selection.order, cursor))


def _in_range(selection: Selection, cursor: Values | None, end: Values) -> ColumnElement[bool]:
    order = selection.order
    return and_(selection.dead, after(order, cursor), up_to(order, end))


def _typed(columns: Columns, values: Values) -> list[ColumnElement[Any]]:
    pairs = zip(columns, values, strict=True)
    return [
        value if isinstance(value, ColumnElement) else literal(value, column.type) for column, value in pairs
    ]
