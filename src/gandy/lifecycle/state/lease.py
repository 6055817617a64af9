"""One writer for each contract: a lease with a fence token that guards every batch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Row, Update, func, literal, or_, select, update
from sqlalchemy.exc import DBAPIError

from gandy.clock import MOST_DRIFT
from gandy.errors import SweepLeaseLostError
from gandy.lifecycle.state.tables import LEASE, Instant, insert_or_set_where, stored_instant

if TYPE_CHECKING:
    from gandy.lifecycle.database.target import TargetSession

LEASE_FOR = timedelta(seconds=15)
_TOLD = (LEASE.c.token, LEASE.c.session, LEASE.c.expires_at)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to sweep under one scheduler's name, while its token is the newest."""

    scheduler: str
    token: int
    taken_at: datetime
    taken_monotonic: float
    is_direct: bool = False  # no pooler between, so prepared statements stay valid

    def renew(self, connection: Connection, only_if: ColumnElement[bool]) -> None:
        """Renew in the batch's transaction, so that a batch without the lease deletes nothing."""
        renewed = connection.execute(self.renewing(literal(self.expiry(), Instant), only_if))
        if renewed.rowcount == 0:
            raise SweepLeaseLostError(self.scheduler)

    def renewing(self, expires_at: ColumnElement[datetime], only_if: ColumnElement[bool]) -> Update:
        """Return the renewing statement; it updates no row once the lease is lost."""
        return update(LEASE).where(*self._mine(), only_if).values(expires_at=expires_at)

    def expiry(self) -> datetime:
        """Return the expiry of a lease renewed now, by the database's clock."""
        elapsed = timedelta(seconds=time.monotonic() - self.taken_monotonic)
        return self.taken_at + elapsed + LEASE_FOR

    def _mine(self) -> tuple[ColumnElement[bool], ...]:
        return LEASE.c.scheduler == self.scheduler, LEASE.c.token == self.token


def take_lease(session: TargetSession, scheduler: str) -> Lease | None:
    """Take the lease; None while another process holds it."""
    is_free = or_(
        LEASE.c.session == "",
        LEASE.c.expires_at <= _in(session, timedelta(0)),
        LEASE.c.expires_at > _in(session, MOST_DRIFT),  # written by a wrong clock
    )
    mine = {"session": session.dialect.session(), "expires_at": _in(session, LEASE_FOR)}
    with session.alone() as connection:
        taken = insert_or_set_where(
            connection,
            LEASE,
            {"scheduler": scheduler, "token": 1, **mine},
            changes={"token": LEASE.c.token + 1, **mine},
            where=is_free,
        )
        found = connection.execute(taken.returning(*_TOLD)).one_or_none()
    return _take_over(session, scheduler) if found is None else _lease(session, scheduler, found)


def newest_lease(session: TargetSession) -> tuple[datetime, datetime | None]:
    """Return now, and the newest instant that a sweep wrote; later instants come from a wrong clock."""
    is_past = LEASE.c.expires_at <= _in(session, LEASE_FOR)
    known = select(_in(session, timedelta(0)), func.max(LEASE.c.expires_at).filter(is_past))
    try:
        with session.alone() as connection:
            now, newest = connection.execute(known).one()
    except DBAPIError:
        if session.is_lost:
            raise
        return session.now(), None  # the tables do not exist yet
    return stored_instant(now) or session.now(), stored_instant(newest)


def _take_over(session: TargetSession, scheduler: str) -> Lease | None:
    """Take over the lease of a session that has certainly ended, unless another process is first."""
    with session.reading() as connection:
        held = connection.execute(select(LEASE).where(LEASE.c.scheduler == scheduler)).one_or_none()
        if held is None or not held.session or not session.dialect.is_gone(connection, held.session):
            return None
    taken = (
        update(LEASE)
        .where(LEASE.c.scheduler == scheduler, LEASE.c.token == held.token, LEASE.c.session == held.session)
        .values(token=held.token + 1, session=session.dialect.session(), expires_at=_in(session, LEASE_FOR))
    )
    with session.alone() as connection:
        found = connection.execute(taken.returning(*_TOLD)).one_or_none()
    return None if found is None else _lease(session, scheduler, found)


def _in(session: TargetSession, span: timedelta) -> ColumnElement[Any]:
    """Return now plus `span`, by the database's clock or by the clock that a test passed."""
    if session.clock is None:
        return session.dialect.instant_in(span)
    return literal(session.clock.now + span, Instant)


def _lease(session: TargetSession, scheduler: str, found: Row[Any]) -> Lease:
    return Lease(
        scheduler,
        found.token,
        found.expires_at - LEASE_FOR,
        time.monotonic(),
        is_direct=session.dialect.is_direct(session.connection, found.session),
    )


def give_back(session: TargetSession, lease: Lease) -> None:
    """Release the lease, so that the next sweep need not wait for its expiry."""
    with session.alone() as connection:
        connection.execute(
            update(LEASE)
            .where(LEASE.c.scheduler == lease.scheduler, LEASE.c.token == lease.token)
            .values(session="")
        )
