"""A look at what a column holds: its lowest and highest values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

if TYPE_CHECKING:
    from gandy.lifecycle.database.facts import TableFacts

_EACH_END = 20


def sample(connection: Connection, table: TableFacts, column: str) -> list[object]:
    """The lowest and the highest few values that are not NULL; an index makes this cheap."""
    values = table.clause.c[column]
    filled = select(values).where(values.is_not(None)).limit(_EACH_END)
    lowest = connection.execute(filled.order_by(values.asc())).scalars()
    return [*lowest, *connection.execute(filled.order_by(values.desc())).scalars()]
