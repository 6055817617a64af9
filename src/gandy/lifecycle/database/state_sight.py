"""Where the lifecycle's own state is, and the role's access to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text
from sqlalchemy.sql.compiler import SQLCompiler

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from sqlalchemy.sql.elements import ClauseElement


# Placeholder for the schema of the state in every statement. A connection without a mapping for it
# finds no such schema, so that no statement falls back on the search path: PostgreSQL lets no role create a
# schema with this prefix.
STATE = "pg_gandy_lifecycle_state"
SETTING = "gandy.lifecycle_state"  # with which the database owner names the schema of the state


@dataclass(frozen=True, slots=True)
class StateObstacle:
    """Why the lifecycle's own tables cannot be created, read or written, and the remedy."""

    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """A table with the name of one of the lifecycle's own tables, and the role's privileges on it."""

    schema: str
    name: str
    columns: frozenset[str]
    may_enter: bool = True  # USAGE on the schema
    may_create: bool = True  # tables in the schema
    lacks: tuple[str, ...] = ()  # of SELECT, INSERT, UPDATE and DELETE
    hides_rows: bool = False  # row level security is active for this role
    owner: str = ""
    is_trusted: bool = True  # its owner gains no privileges if this role writes to it
    fires: tuple[str, ...] = ()  # triggers and rules: they run as the writing role


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTables:
    """All tables with such names in every schema, and whether the role can write at all."""

    tables: tuple[StateTable, ...]
    default_schema: str | None
    role: str = ""
    database: str = ""
    named_schema: str | None = None  # value of the setting
    may_create: bool = True  # tables in that schema, or in the default schema
    obstacle: StateObstacle | None = None  # nothing can be written, independent of the tables


def reach_state(connection: Connection, schema: str | None) -> None:
    """Map the state's placeholder to this schema for every statement on this connection."""
    connection.execution_options(schema_translate_map={} if schema is None else {STATE: schema})


def state_schema(connection: Connection) -> str | None:
    """Return the schema to which this connection maps the state; None if there is no mapping."""
    found: str | None = _places(connection).get(STATE)
    return found


def compiled(connection: Connection, statement: ClauseElement, **options: Any) -> SQLCompiler:  # noqa: ANN401
    """Compile the statement for the driver, with the schema of the state filled in."""
    places = _places(connection)
    made = statement.compile(
        dialect=connection.dialect,
        schema_translate_map=places or None,
        render_schema_translate=bool(places),
        **options,
    )
    assert isinstance(made, SQLCompiler)  # noqa: S101  # statements compile to SQL
    return made


def _places(connection: Connection) -> dict[str, str]:
    places: dict[str, str] = connection.get_execution_options().get("schema_translate_map") or {}
    return places


# Cast every operand to the type of the pg_catalog operator, so that no operator on the search path is used.
# to_regclass would raise an error for a schema that the role may not enter; the catalogue may be read.
_POSTGRES = text("""
    SELECT attname::text FROM pg_catalog.pg_class AS relation
    LEFT JOIN pg_catalog.pg_attribute ON attrelid = relation.oid AND attnum > 0::smallint AND NOT attisdropped
    WHERE relname = CAST(:name AS name) AND relkind IN ('r', 'p', 'v', 'm', 'f')
    AND CASE WHEN CAST(:schema AS name) IS NULL THEN pg_catalog.pg_table_is_visible(relation.oid)
        ELSE relnamespace = (SELECT space.oid FROM pg_catalog.pg_namespace AS space
            WHERE nspname = CAST(:schema AS name)) END
""")
_SQLITE = text("SELECT name FROM pragma_table_xinfo(:name, 'main') WHERE hidden <> 1")


def columns_of(connection: Connection, name: str, schema: str | None = None) -> AbstractSet[str] | None:
    """Return the columns of a table or view; None if it does not exist."""
    if connection.dialect.name == "sqlite":
        found = [row[0] for row in connection.execute(_SQLITE, {"name": name})]
        return set(found) if found else None
    rows = connection.execute(_POSTGRES, {"name": name, "schema": schema}).all()
    return {row[0] for row in rows if row[0] is not None} if rows else None
