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
    """Who a worker is; the id is random and new with every start."""

    id: str
    owner: str
    host: str
    pid: int
    version: str
    slots: int
    trains: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewal:
    """What a worker says with each sign of life."""

    id: str
    lease_seconds: float
    busy: int
    stall_seconds: float = 0.0  #: the longest pause of its event loop
    stalled_junction: str | None = None


def register_worker(worker: WorkerRegistration, lease_seconds: float) -> Operation[None]:
    """Announce a worker, and let in what waited for a train that it knows."""
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
    """Renew a lease and return the worker's state; None: somebody has found it lost."""
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
    """Renew what has run out and nobody has judged, as after a database that froze: its runs are its own."""
    rows = yield statement("renew_late", id=renewal.id, lease_seconds=renewal.lease_seconds)
    for row in rows:  # while it seemed gone, its trains seemed unknown
        yield statement("release_known_trains", owner=row.owner, trains=list(row.trains))
        yield statement("notify", payload=f"work:{row.owner}")
    return rows[0].state if rows else None


def renew_and_list(renewal: LeaseRenewal) -> Operation[tuple[str | None, list[int]]]:
    """Renew a lease; give the worker's state, and the runs in progress that the database gives to it."""
    state = yield from renew_lease(renewal)
    return state, (yield from owned_runs(renewal.id))


def owned_runs(worker_id: str) -> Operation[list[int]]:
    """Name the runs in progress that the database gives to a worker."""
    return [row.id for row in (yield statement("owned_runs", worker_id=worker_id))]


def has_unheard_runs(owner: str, worker_id: str) -> Operation[bool]:
    """Whether runs are in progress under workers that gave no sign of life since this one started."""
    return bool((yield statement("find_unheard_run", owner=owner, worker_id=worker_id)))


def hold_worker(worker_id: str) -> Operation[bool]:
    """Keep others from finding it lost until this transaction ends; False: it was found lost before."""
    rows = yield statement("hold_worker", id=worker_id)
    return any(row.state in {"running", "draining"} for row in rows)


def stop_worker(worker_id: str) -> Operation[None]:
    """Record a clean end."""
    yield statement("stop_worker", id=worker_id)


def live_workers(owner: str) -> Operation[Rows]:
    """List the workers whose lease holds now."""
    return (yield statement("live_workers", owner=owner))


def list_workers(owners: Owners, *, limit: int) -> Operation[Rows]:
    """List workers, those heard of last first, whether they are there or gone."""
    return (yield statement("list_workers", owner=owners.bound, limit=limit))


def drain_worker(worker_id: str, owners: Owners) -> Operation[str | None]:
    """Let a running worker finish what it has and claim no more; give its owner, None: it does not run."""
    rows = yield statement("drain_worker", id=worker_id, owner=owners.bound)
    return rows[0].owner if rows else None


HELD_PART: Final = 4  # of the room under a cap, one place in this many may be held in advance


@dataclass(frozen=True, slots=True)
class Space:
    """How many entries under caps a worker may take, in all and of each group, and how many had room."""

    most: int
    allowed: Mapping[int, int]
    room: Mapping[int, int]

    def is_cut(self, entries: Rows) -> bool:
        """Tell whether a group had more than was taken of it, which waits for a free slot of the worker."""
        loaded = Counter(entry.manifest_group_id for entry in entries)
        return any(
            loaded[group_id] >= allowed < self.room[group_id] for group_id, allowed in self.allowed.items()
        )


def leave_for_slots(request: DispatchRequest, capacity: Capacity, room: dict[int, int]) -> Space | None:
    """Narrow the room of capped groups to the free slots, or to a part of it where there is much."""
    if request.free_slots is None:
        return None
    capped = {group_id: space for group_id, space in room.items() if capacity.is_over(group_id)}
    for group_id, space in capped.items():
        room[group_id] = min(space, max(request.free_slots, space // HELD_PART))
    total = sum(capped.values()) if capacity.free is None else capacity.free
    allowed = {group_id: room[group_id] for group_id in capped}
    return Space(max(request.free_slots, total // HELD_PART), allowed, capped)


def within_slots(chosen: Rows, space: Space, capacity: Capacity) -> Rows:
    """Leave what is too much where several groups brought it."""
    begun: Rows = []
    left = space.most
    for entry in chosen:
        is_capped = capacity.is_over(entry.manifest_group_id)
        left -= is_capped
        if not is_capped or left >= 0:
            begun.append(entry)
    return begun
