"""One writer for each contract: a lease whose token guards every batch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, Update, literal, select, update

from gandy.errors import SweepLeaseLostError
from gandy.lifecycle.state.tables import LEASE, Instant
from gandy.lifecycle.state.upsert import insert_ignoring

if TYPE_CHECKING:
    from gandy.lifecycle.database.target import Session

LEASE_FOR = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to sweep under one scheduler's name, while its token is the newest."""

    scheduler: str
    token: int
    taken_at: datetime
    taken_monotonic: float

    def renew(self, connection: Connection) -> None:
        """Hold on in the batch's own transaction; a batch of a lost lease deletes nothing."""
        renewed = connection.execute(self.renewing(literal(self.expiry(), Instant)))
        if renewed.rowcount == 0:
            raise SweepLeaseLostError(self.scheduler)

    def renewing(self, expires_at: ColumnElement[datetime]) -> Update:
        """The statement that holds on; it changes no row once the lease is lost."""
        return update(LEASE).where(*self._mine()).values(expires_at=expires_at)

    def expiry(self) -> datetime:
        """When a lease renewed now runs out, by the database's clock."""
        elapsed = timedelta(seconds=time.monotonic() - self.taken_monotonic)
        return self.taken_at + elapsed + LEASE_FOR

    def _mine(self) -> tuple[ColumnElement[bool], ...]:
        return LEASE.c.scheduler == self.scheduler, LEASE.c.token == self.token


def take_lease(session: Session, scheduler: str) -> Lease | None:
    """The lease, or None while another process holds it."""
    now = session.now()
    with session.writing() as connection:
        insert_ignoring(
            connection, LEASE, {"scheduler": scheduler, "token": 0, "session": "", "expires_at": now}
        )
        held = connection.execute(select(LEASE).where(LEASE.c.scheduler == scheduler).with_for_update()).one()
        is_live = held.session != "" and held.expires_at > now
        if is_live and not session.dialect.is_gone(connection, held.session):
            return None
        token = held.token + 1
        connection.execute(
            update(LEASE)
            .where(LEASE.c.scheduler == scheduler)
            .values(token=token, session=session.dialect.session(connection), expires_at=now + LEASE_FOR)
        )
    return Lease(scheduler, token, now, time.monotonic())


def give_back(session: Session, lease: Lease) -> None:
    """Let the next one begin at once."""
    with session.writing() as connection:
        connection.execute(
            update(LEASE)
            .where(LEASE.c.scheduler == lease.scheduler, LEASE.c.token == lease.token)
            .values(session="")
        )
