"""PostgreSQL: whether the lifecycle's own tables are there, and what keeps the role from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, text

from gandy.lifecycle.contract.names import quoted
from gandy.lifecycle.database.dialect import StateAccess, StateObstacle

if TYPE_CHECKING:
    from collections.abc import Sequence

_STATE = text("""
    SELECT pg_catalog.pg_is_in_recovery() AS is_standby,
           pg_catalog.current_setting('default_transaction_read_only') = 'on' AS is_read_only,
           current_user::text AS role,
           pg_catalog.current_schema()::text AS schema,
           pg_catalog.has_schema_privilege(pg_catalog.current_schema(), 'CREATE') AS may_create,
           pg_catalog.count(relation.oid) AS found,
           pg_catalog.json_agg(relname::text ORDER BY relname) FILTER (WHERE NOT (
               pg_catalog.has_table_privilege(relation.oid, 'SELECT')
               AND pg_catalog.has_table_privilege(relation.oid, 'INSERT')
               AND pg_catalog.has_table_privilege(relation.oid, 'UPDATE')
               AND pg_catalog.has_table_privilege(relation.oid, 'DELETE'))) AS closed
    FROM pg_catalog.unnest(CAST(:tables AS text[])) AS named (name)
    LEFT JOIN pg_catalog.pg_class AS relation
    ON relname = named.name AND relkind IN ('r', 'p') AND pg_catalog.pg_table_is_visible(relation.oid)
""")


def read_state_access(connection: Connection, tables: Sequence[str]) -> StateAccess:
    """Whether the lifecycle's own tables are there, and what keeps the role from making or writing them."""
    row = connection.execute(_STATE, {"tables": list(tables)}).one()
    exists = row.found == len(tables)
    return StateAccess(exists, _state_obstacle(row, exists=exists))


def _state_obstacle(row: Row[Any], *, exists: bool) -> StateObstacle | None:
    role = quoted(row.role)
    if row.is_standby:
        return StateObstacle("the server is a standby, which is read only", "Name the primary")
    if row.is_read_only:
        message = "default_transaction_read_only is on, so a sweep could not write its state"
        return StateObstacle(message, f"Run: ALTER ROLE {role} SET default_transaction_read_only = off")
    if row.closed:
        names = ", ".join(row.closed)
        message = f"the role {row.role} may not read and write {names}, where the lifecycle keeps its state"
        return StateObstacle(message, f"Run: GRANT SELECT, INSERT, UPDATE, DELETE ON {names} TO {role}")
    if exists or row.may_create:
        return None
    if row.schema is None:
        message = f"no schema on the search path of the role {row.role} can hold the lifecycle's state"
        return StateObstacle(message, f"Run: ALTER ROLE {role} SET search_path = ...")
    message = f"the role {row.role} may not create the tables of the lifecycle's state in {row.schema}"
    return StateObstacle(message, f"Run: GRANT CREATE ON SCHEMA {quoted(row.schema)} TO {role}")
