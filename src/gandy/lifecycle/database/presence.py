"""Whether a table is there, and its columns, asked so that no operator of another role is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from gandy.lifecycle.contract.names import quoted

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

# Every operand has the very type of PostgreSQL's own operator; a bare name means the first on the path.
_POSTGRES = text("""
    SELECT attname::text FROM pg_catalog.pg_class AS relation
    LEFT JOIN pg_catalog.pg_attribute ON attrelid = relation.oid AND attnum > 0::smallint AND NOT attisdropped
    WHERE relation.oid = pg_catalog.to_regclass(CAST(:name AS text))::oid
    AND relkind IN ('r', 'p', 'v', 'm', 'f')
""")
_SQLITE = text("SELECT name FROM pragma_table_xinfo(:name, 'main') WHERE hidden <> 1")


def columns_of(connection: Connection, name: str, schema: str | None = None) -> AbstractSet[str] | None:
    """The columns of a table or view; None where there is none of this name."""
    if connection.dialect.name == "sqlite":
        found = [row[0] for row in connection.execute(_SQLITE, {"name": name})]
        return set(found) if found else None
    whole = quoted(name) if schema is None else f"{quoted(schema)}.{quoted(name)}"
    rows = connection.execute(_POSTGRES, {"name": whole}).all()
    return {row[0] for row in rows if row[0] is not None} if rows else None
