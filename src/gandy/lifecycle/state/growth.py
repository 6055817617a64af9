"""How large each table was at earlier audits; the newest hundred are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, func, insert, select

from gandy.lifecycle.database.dialect import TableSize
from gandy.lifecycle.state.tables import AUDIT, has_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_KEPT_PER_TABLE = 100


@dataclass(frozen=True, slots=True)
class Measured:
    """A table's size at an instant."""

    at: datetime
    size: TableSize


def last_measured(connection: Connection) -> dict[str, Measured]:
    """The latest audit of each table."""
    if not has_table(connection, AUDIT):
        return {}
    newest = select(AUDIT.c.table_name, func.max(AUDIT.c.audited_at).label("at")).group_by(AUDIT.c.table_name)
    latest = newest.subquery()
    found = connection.execute(
        select(AUDIT).join(
            latest,
            (AUDIT.c.table_name == latest.c.table_name) & (AUDIT.c.audited_at == latest.c.at),
        )
    )
    return {row.table_name: Measured(row.audited_at, TableSize(row.rows, row.bytes)) for row in found}


def forget_others(connection: Connection, tables: Iterable[str]) -> None:
    """Forget tables that are there no more."""
    connection.execute(delete(AUDIT).where(AUDIT.c.table_name.not_in(list(tables))))


def record_size(connection: Connection, table: str, measured: Measured) -> None:
    """Remember a table's size, and forget what is beyond the newest hundred."""
    mine = AUDIT.c.table_name == table
    connection.execute(delete(AUDIT).where(mine, AUDIT.c.audited_at == measured.at))
    connection.execute(
        insert(AUDIT).values(
            table_name=table, audited_at=measured.at, rows=measured.size.rows, bytes=measured.size.bytes
        )
    )
    oldest_kept = (
        select(AUDIT.c.audited_at)
        .where(mine)
        .order_by(AUDIT.c.audited_at.desc())
        .offset(_KEPT_PER_TABLE - 1)
        .limit(1)
        .scalar_subquery()
    )
    connection.execute(delete(AUDIT).where(mine, AUDIT.c.audited_at < oldest_kept))
