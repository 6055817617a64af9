"""How many rows hang on the rows that a rule would take."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, func, select, tuple_

if TYPE_CHECKING:
    from gandy.lifecycle.selection.walks import Child, Selection


def count_children(connection: Connection, selection: Selection) -> dict[str, int]:
    """Children of the dead rows, by table, whatever becomes of them."""
    counted: Counter[str] = Counter()
    columns = selection.table.clause.c
    for child in selection.children:
        parents = select(*(columns[name] for name in child.parent_columns)).where(selection.dead)
        counted += _count(connection, child, parents)
    return dict(counted)


def _count(connection: Connection, child: Child, parents: Select[Any]) -> Counter[str]:
    columns = child.table.clause.c
    mine = [columns[name] for name in child.columns]
    refers = mine[0].in_(parents) if len(mine) == 1 else tuple_(*mine).in_(parents)
    found = connection.execute(select(func.count()).select_from(child.table.clause).where(refers))
    counted = Counter({child.table.name.name: int(found.scalar_one())})
    for nested in child.children:
        doomed = select(*(columns[name] for name in nested.parent_columns)).where(refers)
        counted += _count(connection, nested, doomed)
    return counted
