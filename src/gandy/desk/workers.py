"""What a person may ask of workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gandy.errors import WorkerNotFoundError
from gandy.store.audit import Deed, record_deed
from gandy.store.workers import drain_worker, list_workers

if TYPE_CHECKING:
    from gandy.model.owners import Operator, Owners
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSummary:
    """A worker; it is alive while its lease holds."""

    id: str
    host: str
    pid: int
    version: str
    state: str
    is_alive: bool
    silent_for: timedelta  #: since its last sign of life
    lease_left: timedelta | None  #: None once it has run out
    busy: int
    slots: int
    started_at: datetime
    last_seen_at: datetime
    longest_stall: timedelta
    stalled_junction: str | None
    trains: tuple[str, ...]
    owner: str


class WorkerDesk:
    """Reads and drains workers in the name of somebody."""

    def __init__(self, database: Database, operator: Operator, *, owners: Owners) -> None:
        """Take the owners whose workers are seen."""
        self._database = database
        self._operator = operator
        self._owners = owners

    async def list(self, *, is_alive: bool | None = None, limit: int = 1_000) -> tuple[WorkerSummary, ...]:
        """List workers, those heard of last first."""
        rows = await self._database.read(list_workers(self._owners, limit=limit))
        return tuple(_summary(row) for row in rows if is_alive is None or row.is_alive is is_alive)

    async def drain(self, worker_id: str) -> None:
        """Let a worker finish what it has and claim no more; it hears of it with its next sign of life."""
        await self._database.run(self._drain(worker_id))

    def _drain(self, worker_id: str) -> Operation[None]:
        owner = yield from drain_worker(worker_id, self._owners)
        if owner is None:
            raise WorkerNotFoundError(worker_id)
        yield from record_deed(self._operator, Deed(owner=owner, action="drain worker", subject=worker_id))


def _summary(row: Row) -> WorkerSummary:
    lease_left = timedelta(seconds=row.lease_seconds)
    return WorkerSummary(
        id=row.id,
        host=row.host,
        pid=row.pid,
        version=row.version,
        state=row.state,
        is_alive=row.is_alive,
        silent_for=timedelta(seconds=row.silent_seconds),
        lease_left=lease_left if row.is_alive else None,
        busy=row.busy,
        slots=row.slots,
        started_at=row.started_at,
        last_seen_at=row.last_seen_at,
        longest_stall=timedelta(seconds=row.longest_stall_seconds),
        stalled_junction=row.stalled_junction,
        trains=tuple(row.trains),
        owner=row.owner,
    )
