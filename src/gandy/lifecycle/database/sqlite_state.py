"""SQLite: the lifecycle's own tables, and whether the file can be written."""

from __future__ import annotations

import os

from sqlalchemy import Connection, text

from gandy.lifecycle.database.state_sight import StateObstacle, StateTable, StateTables

MAIN = "main"  # the file itself, not attached files
_COLUMNS = text(
    'SELECT lower(tables.name) AS "table", lower(field.name) AS "column" FROM main.sqlite_master AS tables'
    " JOIN pragma_table_xinfo(tables.name) AS field"
    r" WHERE tables.type = 'table' AND tables.name LIKE 'gandy\_lifecycle\_%' ESCAPE '\'"
)
_FILE = text("SELECT file FROM pragma_database_list WHERE name = 'main'")


def read_sight(connection: Connection) -> StateTables:
    """Read the state tables; a file has one schema, and no roles."""
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(_COLUMNS):
        found.setdefault(table, set()).add(column)
    return StateTables(
        tables=tuple(
            StateTable(schema=MAIN, name=name, columns=frozenset(columns))
            for name, columns in sorted(found.items())
        ),
        default_schema=MAIN,
        obstacle=_obstacle(connection),
    )


def _obstacle(connection: Connection) -> StateObstacle | None:
    """Check write access to the file and to its folder, which contains the journal."""
    file = connection.execute(_FILE).scalar()
    places = [str(file), os.path.dirname(str(file))] if file else []  # noqa: PTH120  # a text for messages
    closed = next((place for place in places if not os.access(place, os.W_OK)), None)
    if closed is None:
        return None
    message = f"{closed} cannot be written by this user, so a sweep could not write its state"
    return StateObstacle(message, "Give this user write access to the file and folder")
