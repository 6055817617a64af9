"""Rows that cannot be deleted: left out of every sweep until a person releases them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select

from gandy.lifecycle.database.values import decode_values, encode_values
from gandy.lifecycle.state.tables import QUARANTINE, has_tables
from gandy.lifecycle.state.upsert import insert_or_set

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """One row that could not be deleted, and what the database said."""

    scheduler: str
    table: str
    key: tuple[object, ...]
    rule: str
    error: str
    quarantined_at: datetime


def put_in_quarantine(connection: Connection, row: QuarantinedRow) -> None:
    """Record a row; a second time replaces the error."""
    said = {"rule": row.rule, "error": row.error, "quarantined_at": row.quarantined_at}
    key = {"scheduler": row.scheduler, "table_name": row.table, "row_key": encode_values(row.key)}
    insert_or_set(connection, QUARANTINE, {**key, **said}, changes=said)


def list_quarantine(
    connection: Connection, *, scheduler: str | None = None, table: str | None = None
) -> list[QuarantinedRow]:
    """The rows in quarantine, by table and time."""
    if not has_tables(connection):
        return []
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
                QUARANTINE.c.row_key == encode_values(row.key),
            )
        )
        released += gone.rowcount
    return released
