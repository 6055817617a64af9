"""The catalogue of PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text

from gandy.lifecycle.contract.names import GANDY, GANDY_TABLES
from gandy.lifecycle.database.facts import (
    Catalogue,
    ColumnFacts,
    Described,
    ForeignKey,
    IndexFacts,
    Lineage,
    Standing,
    TableName,
    Trigger,
)
from gandy.lifecycle.database.postgres_facts import (
    DECLARED_TYPES,
    DOUBTS,
    PUBLISHED,
    TYPES,
    UNTOLD,
    column_type,
    comparison,
    doubt_of_key,
    mark_of,
)
from gandy.lifecycle.database.state_sight import state_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gandy.lifecycle.database.facts import Wanted


Found = dict[str, Any]

_ACTIONS = {"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}

# The tables to describe: the named tables, and all whose rows refer to them. A key may refer to a
# partition or an inheriting table of a named table, or to a table that it is a partition of.
_WANTED = """
    named AS MATERIALIZED (
        SELECT relation.oid FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        JOIN ROWS FROM (
            pg_catalog.unnest(CAST(:schemas AS text[])), pg_catalog.unnest(CAST(:names AS text[]))
        ) AS given (schema, name)
        ON given.name = relation.relname AND CASE WHEN given.schema IS NULL
            THEN space.nspname = ANY (pg_catalog.current_schemas(false)) ELSE given.schema = space.nspname END
        UNION
        SELECT relation.oid FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE CAST(:is_all AS boolean) AND relation.relkind IN ('r', 'p') AND NOT relation.relispartition
        AND nspname <> 'information_schema' AND nspname::text NOT LIKE 'pg\\_%'
        AND pg_catalog.has_schema_privilege(space.oid, 'USAGE')
    ), edge (origin, target, kind) AS MATERIALIZED (
        SELECT inhparent, inhrelid, 'member' FROM pg_catalog.pg_inherits
        UNION ALL SELECT inhrelid, inhparent, 'parent' FROM pg_catalog.pg_inherits
        UNION ALL SELECT confrelid, conrelid, 'table' FROM pg_catalog.pg_constraint
        WHERE contype = 'f' AND conparentid = 0::oid AND NOT CAST(:is_all AS boolean)
    ), reached (oid, kind) AS (
        SELECT oid, 'table' FROM named
        UNION SELECT edge.target, edge.kind FROM reached JOIN edge ON edge.origin = reached.oid
        WHERE 'table' IN (edge.kind, reached.kind) OR edge.kind = reached.kind
    ), wanted AS MATERIALIZED (
        SELECT relation.oid, relation.relname, relation.relowner, space.nspname, space.oid AS space
        FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE relation.oid IN (SELECT oid FROM reached WHERE kind = 'table')
        AND relation.relkind IN ('r', 'p') AND relation.relpersistence <> 't'
    ), member (root, oid) AS (
        SELECT oid, oid FROM wanted
        UNION SELECT member.root, inhrelid FROM pg_catalog.pg_inherits JOIN member ON inhparent = member.oid
    ), silenced (oid) AS (
        SELECT tgconstraint FROM pg_catalog.pg_trigger WHERE tgisinternal AND tgenabled NOT IN ('O', 'A')
        UNION SELECT conparentid FROM silenced JOIN pg_catalog.pg_constraint AS con ON con.oid = silenced.oid
    )"""
# conparentid: a partition's copy of a key adds nothing to the key itself, unless its
# triggers are switched off.
# to_jsonb: confdelsetcols came with PostgreSQL 15, conenforced and conperiod with 18.
_FOREIGN_KEYS = f"""
    SELECT con.conname, child_space.nspname AS child_schema, child.relname AS child,
           parent_space.nspname AS parent_schema, parent.relname AS parent,
           con.confdeltype::text AS on_delete, con.condeferred,
           coalesce((stored ->> 'conenforced'::text)::boolean, true)
           AND con.oid NOT IN (SELECT oid FROM silenced) AS is_enforced,
           coalesce((stored ->> 'conperiod'::text)::boolean, false) AS is_period,
           ({DOUBTS}) AS doubts,
           (SELECT pg_catalog.json_agg(attname::text ORDER BY at) FROM pg_catalog.unnest(con.conkey)
            WITH ORDINALITY AS named (number, at) JOIN pg_catalog.pg_attribute
            ON attrelid = con.conrelid AND attnum = number) AS columns,
           (SELECT pg_catalog.json_agg(attname::text ORDER BY at) FROM pg_catalog.unnest(con.confkey)
            WITH ORDINALITY AS named (number, at) JOIN pg_catalog.pg_attribute
            ON attrelid = con.confrelid AND attnum = number) AS parent_columns,
           (SELECT pg_catalog.json_agg(attname::text ORDER BY attnum) FROM pg_catalog.pg_attribute
            WHERE con.confdeltype IN ('n', 'd') AND attrelid = con.conrelid
            AND stored -> 'confdelsetcols'::text @> pg_catalog.to_jsonb(attnum)) AS set_null_columns
    FROM pg_catalog.pg_constraint AS con
    CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(con) OFFSET 0) AS whole (stored)
    JOIN pg_catalog.pg_class AS child ON child.oid = con.conrelid
    JOIN pg_catalog.pg_namespace AS child_space ON child_space.oid = child.relnamespace
    JOIN pg_catalog.pg_class AS parent ON parent.oid = con.confrelid
    JOIN pg_catalog.pg_namespace AS parent_space ON parent_space.oid = parent.relnamespace
    WHERE con.contype = 'f' AND con.conparentid = 0::oid
    ORDER BY child_space.nspname, child.relname, con.conname
"""  # noqa: S608  # a constant
_LINEAGE = """
    SELECT space.nspname AS schema, relation.relname AS name, relation.relkind = 'p' AS is_partitioned,
           relation.relkind = 'f' AS is_foreign,
           relation.relispartition AS is_partition, parent_space.nspname AS parent_schema,
           parent.relname AS parent
    FROM pg_catalog.pg_class AS relation
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
    LEFT JOIN pg_catalog.pg_inherits ON inhrelid = relation.oid
    LEFT JOIN pg_catalog.pg_class AS parent ON parent.oid = inhparent
    LEFT JOIN pg_catalog.pg_namespace AS parent_space ON parent_space.oid = parent.relnamespace
    WHERE relation.relkind IN ('r', 'p', 'f') AND relation.relpersistence <> 't'
    AND (relation.relkind = 'p' OR inhparent IS NOT NULL)
"""
# An index that is not valid (yet) serves no query and guarantees no uniqueness.
_TABLES = f"""
    SELECT nspname AS schema, relname AS name, current_user::text AS role, {mark_of("wanted.oid")} AS mark,
           pg_catalog.has_schema_privilege(space, 'USAGE') AS may_enter,
           pg_catalog.has_table_privilege(oid, 'DELETE') AS may_delete,
           pg_catalog.row_security_active(oid) AS has_row_security, {UNTOLD} AS untold,
           pg_catalog.current_setting('session_replication_role') = 'replica' AS is_silent,
           (SELECT pg_catalog.bool_and(pg_catalog.pg_has_role(relowner, 'USAGE')) FROM member
            JOIN pg_catalog.pg_class AS each ON each.oid = member.oid WHERE root = wanted.oid) AS owns,
           (SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
                'name', attname, 'type', pg_catalog.format_type(atttypid, atttypmod),
                'type_number', atttypid::bigint, 'collation', attcollation::regcollation,
                'is_generated', attgenerated <> '', 'is_nullable', NOT attnotnull,
                'is_readable', pg_catalog.has_column_privilege(attrelid, attnum, 'SELECT'),
                'is_writable', pg_catalog.has_column_privilege(attrelid, attnum, 'UPDATE')) ORDER BY attnum)
            FROM pg_catalog.pg_attribute
            WHERE attrelid = wanted.oid AND attnum > 0 AND NOT attisdropped) AS columns,
           (SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
                'name', each.relname, 'is_unique', indisunique, 'is_primary', indisprimary,
                'is_partial', indpred IS NOT NULL,
                'definition', pg_catalog.pg_get_indexdef(indexrelid), 'columns', (
                    SELECT pg_catalog.json_agg(attname ORDER BY at)
                    FROM pg_catalog.unnest(indkey::smallint[]) WITH ORDINALITY AS part (number, at)
                    LEFT JOIN pg_catalog.pg_attribute ON attrelid = indrelid AND attnum = number
                    WHERE at <= indnkeyatts)) ORDER BY each.relname)
            FROM pg_catalog.pg_index JOIN pg_catalog.pg_class AS each ON each.oid = indexrelid
            WHERE indrelid = wanted.oid AND indisvalid) AS indexes
    FROM wanted
"""  # noqa: S608  # a constant
# Bits of tgtype: 1 is FOR EACH ROW, 2 is BEFORE, 8 is DELETE, 16 is UPDATE. A member's own statement
# trigger does not fire through its root. A copy that a partition got from its root (tgparentid) is the
# root's, unless the root is not among the members, or has its own switched off.
_TRIGGERS = """
    SELECT wanted.nspname AS root_schema, wanted.relname AS root, space.nspname AS schema,
           relation.relname AS "table", fired.name, fired.may_keep, fired.is_instead,
           fired.is_deferrable, fired.on_delete, fired.on_update, (
               SELECT pg_catalog.json_agg(attname) FROM pg_catalog.pg_attribute
               WHERE attrelid = fired.relation AND attnum = ANY (fired.columns)
           ) AS columns
    FROM (
        SELECT root, tgrelid AS relation, tgname::text AS name, tgtype & 3::smallint = 3 AS may_keep,
               false AS is_instead, tgdeferrable AS is_deferrable,
               tgtype & 8::smallint = 8 AS on_delete, tgtype & 16::smallint = 16 AS on_update,
               tgattr::smallint[] AS columns FROM member
        JOIN pg_catalog.pg_trigger AS own ON tgrelid = member.oid
        WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 24::smallint <> 0
        AND (tgtype & 1::smallint = 1 OR tgrelid = root)
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_trigger AS copied JOIN member AS above ON above.oid = copied.tgrelid
            WHERE copied.oid = own.tgparentid AND copied.tgenabled <> 'D' AND above.root = member.root)
        UNION ALL
        SELECT wanted.oid, ev_class, rulename::text, is_instead, is_instead, false, ev_type = '4',
               ev_type = '2', '{}' FROM wanted
        JOIN pg_catalog.pg_rewrite ON ev_class = wanted.oid
        WHERE ev_type IN ('2', '4') AND ev_enabled <> 'D'
    ) AS fired JOIN wanted ON wanted.oid = fired.root
    JOIN pg_catalog.pg_class AS relation ON relation.oid = fired.relation
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
    ORDER BY 3, 4, 5
"""
_OWN_TABLES = """
    SELECT relname AS name FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relnamespace
    WHERE nspname = :gandy AND relkind IN ('r', 'p')
    AND (relispartition OR relname = ANY (CAST(:own_tables AS text[])))
"""
_STATE = """
    SELECT relname AS "table", attname AS "column",
    pg_catalog.has_table_privilege(relation.oid, 'INSERT')
    AND pg_catalog.has_table_privilege(relation.oid, 'UPDATE')
    AND pg_catalog.has_table_privilege(relation.oid, 'DELETE') AS is_writable
    FROM pg_catalog.pg_class AS relation
    JOIN pg_catalog.pg_attribute ON attrelid = relation.oid
    WHERE relname::text LIKE 'gandy\\_lifecycle\\_%' AND relkind IN ('r', 'p')
    AND attnum > 0 AND NOT attisdropped
    AND relnamespace = (SELECT space.oid FROM pg_catalog.pg_namespace AS space
        WHERE nspname = CAST(:state_schema AS name))
    AND pg_catalog.has_table_privilege(relation.oid, 'SELECT')
"""


def _rows_of(name: str, query: str) -> str:
    return (
        f"(SELECT coalesce(pg_catalog.json_agg(pg_catalog.to_json(found)), '[]') FROM ({query}) AS found)"  # noqa: S608
        f" AS {name}"
    )


_PARTS = {
    "keys": _FOREIGN_KEYS,
    "lineage": _LINEAGE,
    "tables": _TABLES,
    "types": DECLARED_TYPES,
    "triggers": _TRIGGERS,
    "own_tables": _OWN_TABLES,
    "state": _STATE,
}
_CATALOGUE = text(
    f"WITH RECURSIVE {_WANTED}, {PUBLISHED}, {TYPES}"
    " SELECT pg_catalog.current_schema()::text AS default_schema,"
    " pg_catalog.to_json(pg_catalog.current_schemas(false)) AS search_path, "
    + ", ".join(_rows_of(name, query) for name, query in _PARTS.items())
)


def read_catalogue(connection: Connection, wanted: Sequence[Wanted] | None) -> Catalogue:
    """Read these tables and all tables that refer to them; None reads every application table."""
    given: Found = {
        "schemas": [schema for schema, _ in wanted or ()],
        "names": [name for _, name in wanted or ()],
        "is_all": wanted is None,
        "gandy": GANDY,
        "own_tables": sorted(GANDY_TABLES),
        "state_schema": state_schema(connection),
    }
    found = connection.execute(_CATALOGUE, given).mappings().one()
    lineage, path = _lineage(found["lineage"]), tuple(found["search_path"])
    return Catalogue(
        default_schema=found["default_schema"],
        search_path=path,
        tables=_tables(dict(found), path),
        foreign_keys=tuple(
            copy for row in found["keys"] for copy in _for_each_parent(_foreign_key(row, path), lineage)
        ),
        lineage=lineage,
        own_tables=frozenset(TableName(GANDY, own["name"]) for own in found["own_tables"]),
        state=frozenset((own["table"], own["column"]) for own in found["state"]),
        state_schema=given["state_schema"],
        may_write_state=all(own["is_writable"] for own in found["state"]),
        marks={TableName(row["schema"], row["name"]): row["mark"] for row in found["tables"]},
    )


def _lineage(found: Iterable[Found]) -> Lineage:
    """Partitions and inheritance, of every schema."""
    lineage = Lineage()
    for row in found:
        name = TableName(row["schema"], row["name"])
        if row["is_partitioned"]:
            lineage.partitioned.add(name)
        if row["is_partition"]:
            lineage.partitions.add(name)
        if row["is_foreign"]:
            lineage.foreign.add(name)
        if row["parent"] is not None:
            parent = TableName(row["parent_schema"], row["parent"])
            lineage.parents.setdefault(name, []).append(parent)
            lineage.members.setdefault(parent, []).append(name)
    return lineage


def _foreign_key(row: Found, path: Sequence[str]) -> ForeignKey:
    return ForeignKey(
        name=row["conname"],
        child=TableName(row["child_schema"], row["child"]),
        columns=tuple(row["columns"]),
        parent=TableName(row["parent_schema"], row["parent"]),
        parent_columns=tuple(row["parent_columns"]),
        on_delete=_ACTIONS[row["on_delete"]],
        set_null_columns=tuple(row["set_null_columns"] or ()),
        is_deferred=row["condeferred"],
        is_enforced=row["is_enforced"],
        doubt=doubt_of_key(row, path),
    )


def _for_each_parent(key: ForeignKey, lineage: Lineage) -> Iterator[ForeignKey]:
    """Copy the key: a delete from a root deletes members' rows, and a partition stores its root's rows."""
    yield key
    for ancestor in dict.fromkeys(lineage.ancestors(key.parent)):
        yield replace(key, parent=ancestor, member=key.parent)
    for member in lineage.descendants(key.parent):
        if member in lineage.partitions:
            yield replace(key, parent=member)


def _tables(found: Found, path: Sequence[str]) -> dict[TableName, Described]:
    triggers = _triggers(found["triggers"])
    declared = {each["number"]: each for each in found["types"]}
    return {
        (name := TableName(row["schema"], row["name"])): _table(
            row, triggers.get(name, ()), lambda column: _column(column, declared[column["type_number"]], path)
        )
        for row in found["tables"]
    }


def _table(row: Found, triggers: Sequence[Found], described: Callable[[Found], ColumnFacts]) -> Described:
    columns, indexes = row["columns"] or [], row["indexes"] or []
    primary = next((index["columns"] for index in indexes if index["is_primary"]), ())
    return Described(
        columns={column["name"]: described(column) for column in columns},
        primary_key=tuple(primary),
        indexes=tuple(_index(index) for index in indexes if not index["is_primary"]),
        standing=Standing(
            role=row["role"],
            may_enter=row["may_enter"],
            may_delete=row["may_delete"],
            owns=row["owns"],
            unreadable=frozenset(column["name"] for column in columns if not column["is_readable"]),
            unwritable=frozenset(column["name"] for column in columns if not column["is_writable"]),
            has_row_security=row["has_row_security"],
            is_silent=row["is_silent"],
            untold=frozenset(row["untold"] or ()),
            delete_triggers=tuple(_trigger(each) for each in triggers if each["on_delete"]),
            update_triggers=tuple(_trigger(each) for each in triggers if each["on_update"]),
        ),
    )


def _column(found: Found, declared: Found, path: Sequence[str]) -> ColumnFacts:
    """Describe a column; a domain counts as its base type."""
    return ColumnFacts(
        found["name"],
        column_type(declared["pure"] or found["type"]),
        found["is_nullable"] and not declared["is_filled"],
        is_generated=found["is_generated"],
        comparison=comparison(declared, found["collation"], path),
    )


def _index(found: Found) -> IndexFacts:
    return IndexFacts(
        name=found["name"],
        columns=tuple(column or "" for column in found["columns"]),  # an expression has no name
        is_unique=found["is_unique"],
        is_partial=found["is_partial"],
        definition=found["definition"],
    )


def _triggers(found: Iterable[Found]) -> Mapping[TableName, list[Found]]:
    triggers: dict[TableName, list[Found]] = {}
    for row in found:
        triggers.setdefault(TableName(row["root_schema"], row["root"]), []).append(row)
    return triggers


def _trigger(row: Found) -> Trigger:
    return Trigger(
        TableName(row["schema"], row["table"]),
        row["name"],
        row["may_keep"],
        frozenset(row["columns"] or ()),
        is_instead=row["is_instead"],
        is_deferrable=row["is_deferrable"],
    )
