"""Rows that refer to the rows of a batch: deleted first, counted, or set to NULL, in the same transaction."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, assert_never

from sqlalchemy import ColumnElement, Connection, Select, delete, func, select, tuple_, update

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.selection.statements import Values, among

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.lifecycle.database.facts import TableName
    from gandy.lifecycle.selection.walks import Child, Columns, Selection


def settle_children(
    connection: Connection, selection: Selection, keys: Sequence[Values], *, label: Callable[[TableName], str]
) -> Counter[str]:
    """Do to the children of these rows what was declared; how many went, by table."""
    gone: Counter[str] = Counter()
    for child in selection.children:
        columns = selection.table.clause.c
        parents = select(*(columns[name] for name in child.parent_columns)).where(among(selection.key, keys))
        gone += _settle(connection, child, parents, label=label)
    return gone


def _settle(
    connection: Connection, child: Child, parents: Select[Any], *, label: Callable[[TableName], str]
) -> Counter[str]:
    mine = _refers(child, parents)
    gone: Counter[str] = Counter()
    for nested in child.children:
        columns = child.table.clause.c
        doomed = select(*(columns[name] for name in nested.parent_columns)).where(mine)
        gone += _settle(connection, nested, doomed, label=label)
    match child.mode:
        case ChildMode.DELETE_FIRST:
            gone[label(child.table.name)] += connection.execute(
                delete(child.table.clause).where(mine)
            ).rowcount
        case ChildMode.CASCADE:
            counted = select(func.count()).select_from(child.table.clause).where(mine)
            gone[label(child.table.name)] += connection.execute(counted).scalar_one()
        case ChildMode.SET_NULL:
            connection.execute(update(child.table.clause).where(mine).values(dict.fromkeys(child.nulled)))
        case _:
            assert_never(child.mode)
    return gone


def _refers(child: Child, parents: Select[Any]) -> ColumnElement[bool]:
    columns: Columns = tuple(child.table.clause.c[name] for name in child.columns)
    return columns[0].in_(parents) if len(columns) == 1 else tuple_(*columns).in_(parents)
