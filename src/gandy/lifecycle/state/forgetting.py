"""What the state tables hold of one contract, for the day it is declared no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select

from gandy.lifecycle.state.home import plain
from gandy.lifecycle.state.tables import HOLD, LEASE, QUARANTINE, RULE, has_table

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

_KINDS = {"holds": HOLD, "rules": RULE, "quarantined": QUARANTINE}


def remembered_contracts(connection: Connection) -> list[str]:
    """The contracts that the database remembers."""
    tables = [table for table in _KINDS.values() if has_table(connection, table)]
    found = (connection.execute(select(table.c.scheduler).distinct()) for table in tables)
    return sorted({name for names in found for name in names.scalars()})


def remembered_name(given: str, known: Collection[str]) -> str | None:
    """What a person means by a name: one that is remembered, or that of a contract that holds an "@"."""
    return next((name for name in (given, plain(given)) if name in known), None)


def forget_contract(connection: Connection, scheduler: str, *, now: datetime) -> dict[str, int]:
    """Drop what is remembered, by kind; a lease that a sweep still holds is left to it.

    A lease is of the contract as it is declared, whatever the search path: what is remembered apart has none.
    """
    there = {kind: table for kind, table in _KINDS.items() if has_table(connection, table)}
    gone = {
        kind: connection.execute(delete(table).where(table.c.scheduler == scheduler)).rowcount
        for kind, table in there.items()
    }
    declared = scheduler.replace("@@", "@")
    if plain(declared) == scheduler and has_table(connection, LEASE):
        connection.execute(delete(LEASE).where(LEASE.c.scheduler == declared, LEASE.c.expires_at < now))
    return gone
