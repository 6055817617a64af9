"""What the state tables hold of one contract, for the day it is declared no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select

from gandy.lifecycle.state.tables import HOLD, LEASE, QUARANTINE, RULE, has_table

if TYPE_CHECKING:
    from datetime import datetime

_KINDS = {"holds": HOLD, "rules": RULE, "quarantined": QUARANTINE}


def remembered_contracts(connection: Connection) -> list[str]:
    """The contracts that the database remembers."""
    tables = [table for table in _KINDS.values() if has_table(connection, table)]
    found = (connection.execute(select(table.c.scheduler).distinct()) for table in tables)
    return sorted({name for names in found for name in names.scalars()})


def forget_contract(connection: Connection, scheduler: str, *, now: datetime) -> dict[str, int]:
    """Drop what is remembered, by kind; a lease that a sweep still holds is left to it."""
    there = {kind: table for kind, table in _KINDS.items() if has_table(connection, table)}
    gone = {
        kind: connection.execute(delete(table).where(table.c.scheduler == scheduler)).rowcount
        for kind, table in there.items()
    }
    if has_table(connection, LEASE):
        connection.execute(delete(LEASE).where(LEASE.c.scheduler == scheduler, LEASE.c.expires_at < now))
    return gone
