"""A mark of each table: it changes with all that decides which rows go with a deleted one.

A foreign key puts triggers on the table that it refers to, so those of a table tell of keys too, and their
index leads to them: no index leads from a table to the keys that refer to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Boolean, ColumnElement, text, type_coerce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.lifecycle.database.facts import TableName

_MARK = """(
    WITH RECURSIVE heir (oid) AS (
        {seed} UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN heir ON inhparent = heir.oid
    ), part (said) AS (
        SELECT pg_catalog.concat_ws(' ', 'table', relation.oid, relname, relrowsecurity, relforcerowsecurity,
            pg_catalog.row_security_active(relation.oid), pg_catalog.pg_get_expr(relpartbound, relation.oid))
        FROM heir JOIN pg_catalog.pg_class AS relation ON relation.oid = heir.oid
        UNION ALL
        SELECT pg_catalog.concat_ws(' ', 'column', attrelid, attnum, attname, atttypid, attcollation)
        FROM heir JOIN pg_catalog.pg_attribute ON attrelid = heir.oid WHERE attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT pg_catalog.concat_ws(' ', 'trigger', tgrelid, fired.oid, tgname, tgenabled)
        FROM heir JOIN pg_catalog.pg_trigger AS fired ON tgrelid = heir.oid
        UNION ALL
        SELECT pg_catalog.concat_ws(' ', 'rule', ev_class, rewritten.oid, ev_enabled)
        FROM heir JOIN pg_catalog.pg_rewrite AS rewritten ON ev_class = heir.oid
    ) SELECT pg_catalog.md5(pg_catalog.string_agg(said, E'\\n' ORDER BY said COLLATE "C")) FROM part
)"""
_NAMED = """SELECT relation.oid FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE space.nspname = known.schema AND relation.relname = known.name"""
_UNCHANGED = f"""NOT EXISTS (
    SELECT FROM ROWS FROM (
        pg_catalog.unnest(CAST(:known_schemas AS text[])), pg_catalog.unnest(CAST(:known_names AS text[])),
        pg_catalog.unnest(CAST(:known_marks AS text[]))
    ) AS known (schema, name, mark) WHERE known.mark IS DISTINCT FROM {_MARK.format(seed=_NAMED)}
)"""  # noqa: S608  # a constant


def mark_of(table: str) -> str:
    """The expression for the mark of a table, given one for its number."""
    return _MARK.format(seed=f"SELECT {table}")


def unchanged(marks: Mapping[TableName, str]) -> ColumnElement[bool]:
    """Whether every table still has its mark."""
    asked = text(_UNCHANGED).bindparams(
        known_schemas=[table.schema for table in marks],
        known_names=[table.name for table in marks],
        known_marks=list(marks.values()),
    )
    return type_coerce(asked, Boolean)
