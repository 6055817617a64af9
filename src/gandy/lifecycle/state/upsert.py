"""INSERT ... ON CONFLICT, which both databases have but SQLAlchemy spells per dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Table

Values = Mapping[str, object]


def insert_or_set_where(
    connection: Connection, table: Table, values: Values, *, changes: Values, where: ColumnElement[bool]
) -> postgresql.Insert | sqlite.Insert:
    """The statement that inserts a row, or changes the one with its key where that may be."""
    keys = [column.name for column in table.primary_key]
    given = dict(changes)
    if connection.dialect.name == "postgresql":
        mine = postgresql.insert(table).values(**values)
        return mine.on_conflict_do_update(index_elements=keys, set_=given, where=where)
    theirs = sqlite.insert(table).values(**values)
    return theirs.on_conflict_do_update(index_elements=keys, set_=given, where=where)


def insert_or_set(connection: Connection, table: Table, values: Values, *, changes: Values) -> None:
    """Insert a row, or change the one with its key."""
    keys = [column.name for column in table.primary_key]
    given = dict(changes)
    if connection.dialect.name == "postgresql":
        mine = postgresql.insert(table).values(**values)
        connection.execute(mine.on_conflict_do_update(index_elements=keys, set_=given))
    else:
        theirs = sqlite.insert(table).values(**values)
        connection.execute(theirs.on_conflict_do_update(index_elements=keys, set_=given))


def insert_or_replace(
    connection: Connection, table: Table, rows: Sequence[Values], *, changes: Sequence[str]
) -> None:
    """Insert rows, or change these columns of those with their keys, in one statement."""
    keys = [column.name for column in table.primary_key]
    if connection.dialect.name == "postgresql":
        mine = postgresql.insert(table).values(list(rows))
        given = {name: mine.excluded[name] for name in changes}
        connection.execute(mine.on_conflict_do_update(index_elements=keys, set_=given))
    else:
        theirs = sqlite.insert(table).values(list(rows))
        given = {name: theirs.excluded[name] for name in changes}
        connection.execute(theirs.on_conflict_do_update(index_elements=keys, set_=given))
