"""PostgreSQL: the lifecycle's own tables in every schema, independent of the role's search path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text

from gandy.lifecycle.contract.names import quoted
from gandy.lifecycle.database.state_sight import SETTING, StateObstacle, StateTable, StateTables

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMED = f"nullif(pg_catalog.current_setting('{SETTING}', true), '')"
# Roles whose tables this role may safely write to: triggers and defaults run as the writing role. A
# membership counts only if a superuser or the database owner granted it, because other roles can make
# this role a member of their own roles.
_TRUSTED = """
    WITH RECURSIVE here AS (
        SELECT datdba AS owner FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()
    ), mine (role) AS (
        SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user
        UNION SELECT roleid FROM mine JOIN pg_catalog.pg_auth_members ON member = role
        JOIN pg_catalog.pg_roles AS granting ON granting.oid = grantor CROSS JOIN here
        WHERE (rolsuper OR granting.oid = here.owner)
        AND NOT (SELECT own.rolsuper FROM pg_catalog.pg_roles AS own WHERE own.rolname = current_user)
    )
    SELECT role FROM mine UNION SELECT owner FROM here
    UNION SELECT oid FROM pg_catalog.pg_roles WHERE rolsuper"""
#: Read with the connection's first statement, which saves a round trip.
SIGHT = rf"""pg_catalog.json_build_object(
    'role', current_user::text,
    'database', pg_catalog.current_database()::text,
    'schema', pg_catalog.current_schema()::text,
    'named', {_NAMED},
    'may_create', coalesce((
        SELECT pg_catalog.has_schema_privilege(oid, 'CREATE') FROM pg_catalog.pg_namespace
        WHERE nspname = coalesce({_NAMED}, pg_catalog.current_schema())), false),
    'is_standby', pg_catalog.pg_is_in_recovery(),
    'is_read_only', pg_catalog.current_setting('default_transaction_read_only') = 'on',
    'tables', (
        SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
            'schema', nspname, 'name', relname,
            'may_enter', pg_catalog.has_schema_privilege(space.oid, 'USAGE'),
            'may_create', pg_catalog.has_schema_privilege(space.oid, 'CREATE'),
            'hides_rows', pg_catalog.row_security_active(relation.oid),
            'owner', pg_catalog.pg_get_userbyid(relowner),
            'is_trusted', relowner IN ({_TRUSTED}) OR nspname = coalesce({_NAMED}, ''),
            'fires', (SELECT coalesce(pg_catalog.json_agg(name ORDER BY name), '[]') FROM (
                          SELECT tgname::text AS name FROM pg_catalog.pg_trigger
                          WHERE tgrelid = relation.oid AND NOT tgisinternal
                          UNION SELECT rulename::text FROM pg_catalog.pg_rewrite
                          WHERE ev_class = relation.oid) AS fired),
            'lacks', (SELECT coalesce(pg_catalog.json_agg(kind ORDER BY at), '[]')
                      FROM pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'])
                      WITH ORDINALITY AS every (kind, at)
                      WHERE NOT pg_catalog.has_table_privilege(relation.oid, kind)),
            'columns', (SELECT coalesce(pg_catalog.json_agg(attname), '[]') FROM pg_catalog.pg_attribute
                        WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
                        AND relkind IN ('r', 'p')))
            ORDER BY nspname, relname), '[]')
        FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE relname LIKE 'gandy\_lifecycle\_%' AND relkind IN ('r', 'p', 'v', 'm', 'f')
        AND relpersistence <> 't'))"""  # noqa: S608  # from constants
_SIGHT = text(f"SELECT {SIGHT}")
SEEN = "gandy_state"  # key in `connection.info` for the result of the first statement


def read_sight(connection: Connection, *, is_fresh: bool) -> StateTables:
    """Read the current state tables, or return them as of the connection's start."""
    if is_fresh:
        connection.info[SEEN] = connection.execute(_SIGHT).scalar_one()
    return _sight(connection.info[SEEN])


def _sight(found: Mapping[str, Any]) -> StateTables:
    return StateTables(
        tables=tuple(
            StateTable(
                schema=each["schema"],
                name=each["name"],
                columns=frozenset(each["columns"]),
                may_enter=each["may_enter"],
                may_create=each["may_create"],
                lacks=tuple(each["lacks"]),
                hides_rows=each["hides_rows"],
                owner=each["owner"],
                is_trusted=each["is_trusted"],
                fires=tuple(each["fires"]),
            )
            for each in found["tables"]
        ),
        default_schema=found["schema"],
        role=found["role"],
        database=found["database"],
        named_schema=found["named"],
        may_create=found["may_create"],
        obstacle=_obstacle(found),
    )


def _obstacle(found: Mapping[str, Any]) -> StateObstacle | None:
    if found["is_standby"]:
        return StateObstacle("the server is a standby, which is read only", "Name the primary")
    if found["is_read_only"]:
        message = "default_transaction_read_only is on, so a sweep could not write its state"
        remedy = f"Run: ALTER ROLE {quoted(found['role'])} SET default_transaction_read_only = off"
        return StateObstacle(message, remedy)
    return None
