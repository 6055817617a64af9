"""Rows that cannot be deleted: left out of every sweep until a person releases them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Integer, Text, case, cast, delete, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from gandy.lifecycle.database.values import decode_values, encode_values
from gandy.lifecycle.state.tables import QUARANTINE, has_table
from gandy.lifecycle.state.upsert import insert_or_replace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.sql.compiler import SQLCompiler

_ROWS_IN_ONE_STATEMENT = 500


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """One row that could not be deleted, and what the database said."""

    scheduler: str
    table: str
    key: tuple[object, ...]
    rule: str
    error: str
    quarantined_at: datetime
    stored: str = ""  # the key as the database wrote it


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row to quarantine, by the key that the database itself wrote."""

    scheduler: str
    table_name: str
    row_key: str
    rule: str
    error: str
    quarantined_at: datetime


class KeyText(FunctionElement[str]):
    """A row's key as a JSON array that the database writes: any type has a text that it reads back."""

    name = "gandy_key_text"
    type = Text()
    inherit_cache = True

    def __init__(self, columns: Sequence[ColumnElement[Any]]) -> None:
        super().__init__(*columns)


@compiles(KeyText, "postgresql")
def _key_text_on_postgresql(element: KeyText, compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401
    parts = [column if isinstance(column.type, Integer) else cast(column, Text) for column in element.clauses]
    return compiler.process(cast(func.jsonb_build_array(*parts), Text), **how)


@compiles(KeyText, "sqlite")
def _key_text_on_sqlite(element: KeyText, compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401
    """JSON holds no blob: it is written as SQL writes it."""
    parts = [
        case((func.typeof(column) == "blob", func.quote(column)), else_=column) for column in element.clauses
    ]
    return compiler.process(func.json_array(*parts), **how)


def not_in_quarantine(key: Sequence[ColumnElement[Any]], scheduler: str, table: str) -> ColumnElement[bool]:
    """The row is not in quarantine. The inner question does not depend on the row: it is asked once."""
    there = select(QUARANTINE.c.row_key).where(
        QUARANTINE.c.scheduler == scheduler, QUARANTINE.c.table_name == table
    )
    return KeyText(key).not_in(there)


def put_in_quarantine(connection: Connection, rows: Sequence[Quarantined]) -> None:
    """Record rows; a second time replaces the error."""
    for start in range(0, len(rows), _ROWS_IN_ONE_STATEMENT):
        values = [asdict(row) for row in rows[start : start + _ROWS_IN_ONE_STATEMENT]]
        insert_or_replace(connection, QUARANTINE, values, changes=("rule", "error", "quarantined_at"))


def list_quarantine(
    connection: Connection, *, scheduler: str | None = None, table: str | None = None
) -> list[QuarantinedRow]:
    """The rows in quarantine, by table and time, as far as there are tables for it."""
    return recall_quarantine(connection, scheduler, table) if has_table(connection, QUARANTINE) else []


def recall_quarantine(
    connection: Connection, scheduler: str | None, table: str | None = None
) -> list[QuarantinedRow]:
    """The rows in quarantine, by table and time."""
    wanted = select(QUARANTINE).order_by(QUARANTINE.c.table_name, QUARANTINE.c.quarantined_at)
    if scheduler is not None:
        wanted = wanted.where(QUARANTINE.c.scheduler == scheduler)
    if table is not None:
        wanted = wanted.where(QUARANTINE.c.table_name == table)
    return [
        QuarantinedRow(
            scheduler=row.scheduler,
            table=row.table_name,
            key=decode_values(row.row_key),
            rule=row.rule,
            error=row.error,
            quarantined_at=row.quarantined_at,
            stored=row.row_key,
        )
        for row in connection.execute(wanted)
    ]


def release_rows(connection: Connection, rows: Sequence[QuarantinedRow]) -> int:
    """Let the next sweep try these rows again."""
    released = 0
    for row in rows:
        gone = connection.execute(
            delete(QUARANTINE).where(
                QUARANTINE.c.scheduler == row.scheduler,
                QUARANTINE.c.table_name == row.table,
                QUARANTINE.c.row_key == (row.stored or encode_values(row.key)),
            )
        )
        released += gone.rowcount
    return released
