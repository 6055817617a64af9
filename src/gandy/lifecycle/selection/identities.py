"""Telling rows apart whose key holds a NULL, which SQLite allows in a primary key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, or_, select

from gandy.lifecycle.database.facts import SchemaFacts, TableFacts, table_clause

if TYPE_CHECKING:
    from gandy.lifecycle.database.dialect import Dialect


def with_null_keys(connection: Connection, dialect: Dialect, schema: SchemaFacts) -> SchemaFacts:
    """The same tables; one that holds a row with a NULL in its key goes by where its rows are stored."""
    tables = {
        name: _by_row(dialect, facts) if _holds_null_keys(connection, facts) else facts
        for name, facts in schema.tables.items()
    }
    return replace(schema, tables=tables)


def _holds_null_keys(connection: Connection, facts: TableFacts) -> bool:
    columns = [facts.clause.c[key.name] for key in facts.key if key.is_nullable]
    if not columns:
        return False
    found = select(1).select_from(facts.clause).where(or_(*(column.is_(None) for column in columns)))
    return connection.execute(found.limit(1)).one_or_none() is not None


def _by_row(dialect: Dialect, facts: TableFacts) -> TableFacts:
    identity = dialect.row_identity()
    if identity is None:
        return facts
    shown = {**facts.columns, identity.name: identity}
    clause = table_clause(facts.name, shown, dialect.stored_type)
    return replace(facts, key=(identity,), clause=clause)
