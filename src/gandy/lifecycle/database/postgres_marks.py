"""A mark of each table: it changes with all that decides which rows go with a deleted one.

A foreign key puts triggers on the table that it refers to, so those of a table tell of keys too, and their
index leads to them: no index leads from a table to the keys that refer to it. Each change of a row of the
catalogue is a new version of it, so the versions tell of every change, even of those that do no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Boolean, ColumnElement, String, and_, bindparam, text, true, type_coerce

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.lifecycle.database.facts import TableName

_TREE = "tree "  # how the mark of a table begins that other tables inherit from
_VERSIONS = """pg_catalog.concat_ws(' ', relation.oid, relation.xmin,
    pg_catalog.row_security_active(relation.oid), 'columns',
    (SELECT pg_catalog.string_agg(pg_catalog.concat(number, ':', version), ' ') FROM (
        SELECT attnum AS number, xmin AS version FROM pg_catalog.pg_attribute
        WHERE attrelid = relation.oid AND attnum > 0 ORDER BY attnum
    ) AS kept_column), 'triggers',
    (SELECT pg_catalog.string_agg(pg_catalog.concat(number, ':', version), ' ') FROM (
        SELECT oid AS number, xmin AS version FROM pg_catalog.pg_trigger
        WHERE tgrelid = relation.oid ORDER BY tgname
    ) AS fired), 'rules',
    (SELECT pg_catalog.string_agg(pg_catalog.concat(number, ':', version), ' ') FROM (
        SELECT oid AS number, xmin AS version FROM pg_catalog.pg_rewrite
        WHERE ev_class = relation.oid ORDER BY rulename
    ) AS rewritten))"""
_OF_A_TREE = f"""(
    WITH RECURSIVE heir (oid) AS (
        SELECT topmost.oid
        UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN heir ON inhparent = heir.oid
    ) SELECT '{_TREE}' || pg_catalog.md5(
        pg_catalog.string_agg({_VERSIONS}, E'\\n' ORDER BY relation.oid)
    ) FROM heir JOIN pg_catalog.pg_class AS relation ON relation.oid = heir.oid
)"""  # noqa: S608  # a constant
_MARK = f"""(
    SELECT CASE WHEN topmost.relhassubclass THEN {_OF_A_TREE}
        ELSE (SELECT {_VERSIONS} FROM pg_catalog.pg_class AS relation WHERE relation.oid = topmost.oid) END
    FROM pg_catalog.pg_class AS topmost WHERE topmost.oid = {{table}}
)"""  # noqa: S608  # a constant
_NAMED = """EXISTS (
    SELECT FROM pg_catalog.pg_namespace AS space
    JOIN pg_catalog.pg_class AS {relation} ON {relation}.relnamespace = space.oid
    WHERE space.nspname = :known_schema AND {relation}.relname = :known_name AND {mark} = :known_mark
)"""


def mark_of(table: str) -> str:
    """The expression for the mark of a table, given one for its number."""
    return _MARK.format(table=table)


def unchanged(marks: Mapping[TableName, str]) -> ColumnElement[bool]:
    """Whether every table still has its mark."""
    return and_(true(), *(_is_as_marked(table, mark) for table, mark in marks.items()))


def _is_as_marked(table: TableName, mark: str) -> ColumnElement[bool]:
    """A table that got its first heir since has a new version of its own row."""
    is_tree = mark.startswith(_TREE)
    relation, said = ("topmost", _OF_A_TREE) if is_tree else ("relation", _VERSIONS)
    known = {"known_schema": table.schema, "known_name": table.name, "known_mark": mark}
    asked = text(_NAMED.format(relation=relation, mark=said)).bindparams(
        *(bindparam(name, value, String, unique=True) for name, value in known.items())
    )
    return type_coerce(asked, Boolean)
