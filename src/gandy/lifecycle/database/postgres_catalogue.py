"""PostgreSQL's catalogue: every key of every schema, and what the role may do with each table.

pg_catalog is readable whatever the search path is and whatever the role may see; reflection is not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, text

from gandy.lifecycle.contract.names import GANDY, GANDY_TABLES, quoted
from gandy.lifecycle.database.dialect import StateAccess, StateObstacle
from gandy.lifecycle.database.facts import ForeignKey, Lineage, Standing, TableName, Trigger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_ACTIONS = {"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}

# conparentid: a partition's copy of a key says nothing that the key itself does not say.
# to_jsonb: confdelsetcols came with PostgreSQL 15.
_FOREIGN_KEYS = text("""
    SELECT con.conname, child_space.nspname AS child_schema, child.relname AS child,
           parent_space.nspname AS parent_schema, parent.relname AS parent,
           con.confdeltype::text AS on_delete, con.condeferred,
           (SELECT pg_catalog.json_agg(attname::text ORDER BY at) FROM pg_catalog.unnest(con.conkey)
            WITH ORDINALITY AS named (number, at) JOIN pg_catalog.pg_attribute
            ON attrelid = con.conrelid AND attnum = number) AS columns,
           (SELECT pg_catalog.json_agg(attname::text ORDER BY at) FROM pg_catalog.unnest(con.confkey)
            WITH ORDINALITY AS named (number, at) JOIN pg_catalog.pg_attribute
            ON attrelid = con.confrelid AND attnum = number) AS parent_columns,
           (SELECT pg_catalog.json_agg(attname::text ORDER BY attnum) FROM pg_catalog.pg_attribute
            WHERE attrelid = con.conrelid AND pg_catalog.to_jsonb(con) -> 'confdelsetcols'
            @> pg_catalog.to_jsonb(attnum)) AS set_null_columns
    FROM pg_catalog.pg_constraint AS con
    JOIN pg_catalog.pg_class AS child ON child.oid = con.conrelid
    JOIN pg_catalog.pg_namespace AS child_space ON child_space.oid = child.relnamespace
    JOIN pg_catalog.pg_class AS parent ON parent.oid = con.confrelid
    JOIN pg_catalog.pg_namespace AS parent_space ON parent_space.oid = parent.relnamespace
    WHERE con.contype = 'f' AND con.conparentid = 0
    ORDER BY child_space.nspname, child.relname, con.conname
""")
_LINEAGE = text("""
    SELECT space.nspname AS schema, relation.relname AS name, relation.relkind = 'p' AS is_partitioned,
           relation.relispartition AS is_partition, parent_space.nspname AS parent_schema,
           parent.relname AS parent
    FROM pg_catalog.pg_class AS relation
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
    LEFT JOIN pg_catalog.pg_inherits ON inhrelid = relation.oid
    LEFT JOIN pg_catalog.pg_class AS parent ON parent.oid = inhparent
    LEFT JOIN pg_catalog.pg_namespace AS parent_space ON parent_space.oid = parent.relnamespace
    WHERE relation.relkind IN ('r', 'p', 'f') AND relation.relpersistence <> 't'
    AND (relation.relkind = 'p' OR inhparent IS NOT NULL)
""")
_WANTED = """
    wanted AS MATERIALIZED (
        SELECT relation.oid, relation.relname, relation.relowner, space.nspname, space.oid AS space
        FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        JOIN unnest(CAST(:schemas AS text[]), CAST(:names AS text[])) AS named (schema, name)
        ON named.schema = space.nspname AND named.name = relation.relname
    ), member (root, oid) AS (
        SELECT oid, oid FROM wanted
        UNION SELECT member.root, inhrelid FROM pg_catalog.pg_inherits JOIN member ON inhparent = member.oid
    )"""
_STANDINGS = text(f"""
    WITH RECURSIVE {_WANTED}
    SELECT nspname AS schema, relname AS name, current_user::text AS role,
           pg_catalog.has_schema_privilege(space, 'USAGE') AS may_enter,
           pg_catalog.has_table_privilege(oid, 'DELETE') AS may_delete,
           pg_catalog.row_security_active(oid) AS has_row_security,
           (SELECT pg_catalog.bool_and(pg_catalog.pg_has_role(relowner, 'USAGE')) FROM member
            JOIN pg_catalog.pg_class AS each ON each.oid = member.oid WHERE root = wanted.oid) AS owns,
           (SELECT pg_catalog.json_agg(attname::text) FROM pg_catalog.pg_attribute WHERE attrelid = oid
            AND attnum > 0 AND NOT attisdropped
            AND NOT pg_catalog.has_column_privilege(oid, attnum, 'SELECT')) AS unreadable,
           (SELECT pg_catalog.json_agg(attname::text) FROM pg_catalog.pg_attribute WHERE attrelid = oid
            AND attnum > 0 AND NOT attisdropped
            AND NOT pg_catalog.has_column_privilege(oid, attnum, 'UPDATE')) AS unwritable
    FROM wanted
""")  # noqa: S608  # no name is put into it
# Bits of tgtype: 1 is FOR EACH ROW, 8 is DELETE. A member's own statement trigger does not fire through
# its root, and a copy that a partition got from its root (tgparentid) fires as the root's.
_DELETE_TRIGGERS = text(f"""
    WITH RECURSIVE {_WANTED}, fired (root, relation, name) AS (
        SELECT root, tgrelid, tgname::text FROM member
        JOIN pg_catalog.pg_trigger ON tgrelid = member.oid
        WHERE NOT tgisinternal AND tgparentid = 0 AND tgenabled <> 'D' AND tgtype & 8 = 8
        AND (tgtype & 1 = 1 OR tgrelid = root)
        UNION ALL
        SELECT wanted.oid, ev_class, rulename::text FROM wanted
        JOIN pg_catalog.pg_rewrite ON ev_class = wanted.oid WHERE ev_type = '4' AND ev_enabled <> 'D'
    )
    SELECT wanted.nspname AS root_schema, wanted.relname AS root, space.nspname AS schema,
           relation.relname AS "table", fired.name
    FROM fired JOIN wanted ON wanted.oid = fired.root
    JOIN pg_catalog.pg_class AS relation ON relation.oid = fired.relation
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
    ORDER BY 3, 4, 5
""")  # noqa: S608  # no name is put into it
_OWN_TABLES = text("""
    SELECT relname::text FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relnamespace
    WHERE nspname = :schema AND relkind IN ('r', 'p')
    AND (relispartition OR relname = ANY (CAST(:tables AS text[])))
""")
_STATE = text("""
    SELECT pg_catalog.pg_is_in_recovery() AS is_standby, current_user::text AS role,
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


def read_lineage(connection: Connection) -> Lineage:
    """Partitions and inheritance, of every schema."""
    lineage = Lineage()
    for row in connection.execute(_LINEAGE):
        name = TableName(row.schema, row.name)
        if row.is_partitioned:
            lineage.partitioned.add(name)
        if row.is_partition:
            lineage.partitions.add(name)
        if row.parent is not None:
            parent = TableName(row.parent_schema, row.parent)
            lineage.parents.setdefault(name, []).append(parent)
            lineage.members.setdefault(parent, []).append(name)
    return lineage


def read_foreign_keys(connection: Connection, lineage: Lineage) -> list[ForeignKey]:
    """Every foreign key of every schema, once for each table whose rows it refers to."""
    declared = [_foreign_key(row) for row in connection.execute(_FOREIGN_KEYS)]
    return [each for key in declared for each in _for_each_parent(key, lineage)]


def _foreign_key(row: Row[Any]) -> ForeignKey:
    return ForeignKey(
        name=row.conname,
        child=TableName(row.child_schema, row.child),
        columns=tuple(row.columns),
        parent=TableName(row.parent_schema, row.parent),
        parent_columns=tuple(row.parent_columns),
        on_delete=_ACTIONS[row.on_delete],
        set_null_columns=tuple(row.set_null_columns or ()),
        is_deferred=row.condeferred,
    )


def _for_each_parent(key: ForeignKey, lineage: Lineage) -> Iterator[ForeignKey]:
    """A delete from a root takes rows of its members, and a partition holds rows of its root."""
    yield key
    for ancestor in dict.fromkeys(lineage.ancestors(key.parent)):
        yield replace(key, parent=ancestor, member=key.parent)
    for member in lineage.descendants(key.parent):
        if member in lineage.partitions:
            yield replace(key, parent=member)


def read_standings(connection: Connection, names: Iterable[TableName]) -> Mapping[TableName, Standing]:
    """What the role may do with each of these tables, and what fires when their rows go."""
    wanted = sorted(name for name in names if name.schema is not None)
    if not wanted:
        return {}
    named = {"schemas": [name.schema for name in wanted], "names": [name.name for name in wanted]}
    triggers = _delete_triggers(connection, named)
    return {
        TableName(row.schema, row.name): Standing(
            role=row.role,
            may_enter=row.may_enter,
            may_delete=row.may_delete,
            owns=row.owns,
            unreadable=frozenset(row.unreadable or ()),
            unwritable=frozenset(row.unwritable or ()),
            has_row_security=row.has_row_security,
            delete_triggers=tuple(triggers.get(TableName(row.schema, row.name), ())),
        )
        for row in connection.execute(_STANDINGS, named)
    }


def _delete_triggers(
    connection: Connection, named: Mapping[str, object]
) -> Mapping[TableName, list[Trigger]]:
    found: dict[TableName, list[Trigger]] = {}
    for row in connection.execute(_DELETE_TRIGGERS, named):
        trigger = Trigger(TableName(row.schema, row.table), row.name)
        found.setdefault(TableName(row.root_schema, row.root), []).append(trigger)
    return found


def read_own_tables(connection: Connection) -> frozenset[TableName]:
    """The tables of Gandy in its own schema; an application may have put others there."""
    found = connection.execute(_OWN_TABLES, {"schema": GANDY, "tables": sorted(GANDY_TABLES)})
    return frozenset(TableName(GANDY, name) for name in found.scalars())


def read_state_access(connection: Connection, tables: Sequence[str]) -> StateAccess:
    """Whether the lifecycle's own tables are there, and what keeps the role from making or writing them."""
    row = connection.execute(_STATE, {"tables": list(tables)}).one()
    exists = row.found == len(tables)
    return StateAccess(exists, _state_obstacle(row, exists=exists))


def _state_obstacle(row: Row[Any], *, exists: bool) -> StateObstacle | None:
    role = quoted(row.role)
    if row.is_standby:
        return StateObstacle("the server is a standby, which is read only", "Name the primary")
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
