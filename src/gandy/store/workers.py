"""Workers: their leases and their free slots."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gandy.model.owners import Owners
    from gandy.rules.dispatching import Capacity
    from gandy.store.dispatching import DispatchRequest
    from gandy.store.statements import Operation, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRegistration:
    """The identity of a worker; the id is random and new with every start."""

    id: str
    owner: str
    host: str
    pid: int
    version: str
    slots: int
    trains: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewal:
    """What a worker reports with each lease renewal."""

    id: str
    lease_seconds: float
    busy: int
    stall_seconds: float = 0.0  #: the longest pause of its event loop
    stalled_junction: str | None = None


def register_worker(worker: WorkerRegistration, lease_seconds: float) -> Operation[None]:
    """Register a worker, and open the gate of entries that waited for one of its trains."""
    yield statement(
        "register_worker",
        id=worker.id,
        owner=worker.owner,
        host=worker.host,
        pid=worker.pid,
        version=worker.version,
        slots=worker.slots,
        trains=list(worker.trains),
        lease_seconds=lease_seconds,
    )
    yield statement("release_known_trains", owner=worker.owner, trains=list(worker.trains))


def renew_lease(renewal: LeaseRenewal) -> Operation[str | None]:
    """Renew a lease and return the worker's state; None: the worker was marked lost."""
    rows = yield statement(
        "renew_lease",
        id=renewal.id,
        lease_seconds=renewal.lease_seconds,
        busy=renewal.busy,
        stall_seconds=renewal.stall_seconds,
        stalled_junction=renewal.stalled_junction,
    )
    if rows:
        return str(rows[0].state)
    return (yield from _renew_late(renewal))


def _renew_late(renewal: LeaseRenewal) -> Operation[str | None]:
    """Renew an expired lease of a worker that is not marked lost: after an outage it still owns its runs."""
    rows = yield statement("renew_late", id=renewal.id, lease_seconds=renewal.lease_seconds)
    for row in rows:  # while the lease was expired, its trains counted as unknown
        yield statement("release_known_trains", owner=row.owner, trains=list(row.trains))
        yield statement("notify", payload=f"work:{row.owner}")
    return rows[0].state if rows else None


def renew_and_list(renewal: LeaseRenewal) -> Operation[tuple[str | None, list[int]]]:
    """Renew a lease; return the worker's state, and its runs in progress according to the database."""
    state = yield from renew_lease(renewal)
    return state, (yield from owned_runs(renewal.id))


def owned_runs(worker_id: str) -> Operation[list[int]]:
    """Return the runs in progress of a worker according to the database."""
    return [row.id for row in (yield statement("owned_runs", worker_id=worker_id))]


def has_unheard_runs(owner: str, worker_id: str) -> Operation[bool]:
    """Return whether runs are in progress under workers that have not renewed since this one started."""
    return bool((yield statement("find_unheard_run", owner=owner, worker_id=worker_id)))


def hold_worker(worker_id: str) -> Operation[bool]:
    """Lock a worker's row, so that it is not marked lost in this transaction; False: it was lost before."""
    rows = yield statement("hold_worker", id=worker_id)
    return any(row.state in {"running", "draining"} for row in rows)


def stop_worker(worker_id: str) -> Operation[None]:
    """Record a clean shutdown."""
    yield statement("stop_worker", id=worker_id)


def live_workers(owner: str) -> Operation[Rows]:
    """List the workers whose lease is valid."""
    return (yield statement("live_workers", owner=owner))


def list_workers(owners: Owners, *, limit: int) -> Operation[Rows]:
    """List live and past workers, the most recently seen first."""
    return (yield statement("list_workers", owner=owners.bound, limit=limit))


def drain_worker(worker_id: str, owners: Owners) -> Operation[str | None]:
    """Stop a running worker from claiming more; return its owner, or None if it is not running."""
    rows = yield statement("drain_worker", id=worker_id, owner=owners.bound)
    return rows[0].owner if rows else None


HELD_PART: Final = 4  # one in this many places of the room under a cap may be buffered in advance


@dataclass(frozen=True, slots=True)
class Space:
    """How many capped entries a worker may claim, in total and by group, and the room of each group."""

    most: int
    allowed: Mapping[int, int]
    room: Mapping[int, int]

    def is_cut(self, entries: Rows) -> bool:
        """Return whether a group was limited by the worker's free slots rather than by its room."""
        loaded = Counter(entry.manifest_group_id for entry in entries)
        return any(
            loaded[group_id] >= allowed < self.room[group_id] for group_id, allowed in self.allowed.items()
        )


def leave_for_slots(request: DispatchRequest, capacity: Capacity, room: dict[int, int]) -> Space | None:
    """Limit the room of capped groups to the free slots, or to a quarter of the room if that is more."""
    if request.free_slots is None:
        return None
    capped = {group_id: space for group_id, space in room.items() if capacity.is_over(group_id)}
    for group_id, space in capped.items():
        room[group_id] = min(space, max(request.free_slots, space // HELD_PART))
    total = sum(capped.values()) if capacity.free is None else capacity.free
    allowed = {group_id: room[group_id] for group_id in capped}
    return Space(max(request.free_slots, total // HELD_PART), allowed, capped)


def within_slots(chosen: Rows, space: Space, capacity: Capacity) -> Rows:
    """Drop capped entries beyond the total limit, which several groups together can exceed."""
    begun: Rows = []
    left = space.most
    for entry in chosen:
        is_capped = capacity.is_over(entry.manifest_group_id)
        left -= is_capped
        if not is_capped or left >= 0:
            begun.append(entry)
    return begun
