"""Turning entries into runs: the same operations for the dispatcher and for workers that claim directly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gandy.model.run import ClaimedRun
from gandy.rules.dispatching import Capacity, Ready, choose
from gandy.store.statements import batch, statement
from gandy.store.workers import Space, leave_for_slots, within_slots

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from gandy.store.statements import Operation, Row, Rows

_CLOSED_AT_ONCE: Final = 1_000
FEW: Final = 16  #: the most runs of a small claim: a larger one has no use for a shorter way
_GONE: Final = frozenset({"stopped", "lost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRequest:
    """The claimant, how many entries it wants, and under which caps."""

    owner: str
    trains: Sequence[str]
    limit: int
    per_group: int
    default_timeout_seconds: float
    worker_id: str | None = None  #: None: the run is pending until a worker claims it
    max_active_jobs: int | None = None
    min_age_seconds: float = 0.0  #: leave younger entries to workers that claim directly
    turn: int = 0  #: increases with every claim, so that small claims rotate over the groups
    free_slots: int | None = None  #: limit of capped entries, so that hardly any are buffered in advance
    closes_early: bool = False  #: if nothing can be loaded, close gates that a wrong clock opened too early


@dataclass(frozen=True, slots=True)
class ReadyGroup:
    """A group that has ready work for the trains of a request."""

    id: int
    priority: int
    max_active_jobs: int | None
    is_enabled: bool
    trains: tuple[str, ...] | None  #: known trains with ready work; None: all with ready work are known


@dataclass(frozen=True, slots=True)
class ReadyWork:
    """The entries at the top of each group, and the caps that hold for them."""

    entries: Rows
    groups: dict[int, ReadyGroup]
    capacity: Capacity
    is_contended: bool = False  #: another claim has locked entries or caps: claiming again soon may find more
    space: Space | None = None  #: the room under caps for a worker's free slots


class ClaimTerms(NamedTuple):
    """Values that all runs of a claim share."""

    fence: int
    at: datetime
    default_timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The new runs, and the number of entries that wait for their manifests."""

    runs: tuple[ClaimedRun, ...]
    held: int = 0
    is_contended: bool = False  #: another claim has locked entries or caps: claiming again soon may find more
    is_cut: bool = False  #: entries under a cap wait for a free slot of the worker
    #: the groups with ready work that have a cap; None: one of them is disabled, or all runs are under a cap
    caps: tuple[int, ...] | None = None

    @property
    def plain_caps(self) -> tuple[int, ...] | None:
        """The caps to lock for a next small claim in one statement (`claim_plain`); None: not possible."""
        few = self.runs[: FEW + 1]
        needs_more = any(run.manifest_id or run.unique_key for run in few)
        return self.caps if 0 < len(few) <= FEW and not self.held and not needs_more else None

    @property
    def ids(self) -> tuple[int, ...]:
        """The runs' ids."""
        return tuple(run.id for run in self.runs)


NOTHING: Final = Dispatched(())


def dispatch(request: DispatchRequest) -> Operation[Dispatched]:
    """Load ready entries, measure the capacity, choose, and turn the chosen entries into runs."""
    ready = yield from load_ready(request)
    if request.closes_early and not ready.entries:
        yield from _close_early(request, ready)
    chosen = choose_entries(ready, request)
    begun = chosen if ready.space is None else within_slots(chosen, ready.space, ready.capacity)
    dispatched = (yield from dispatch_entries(request, begun, ready.groups)) if begun else NOTHING
    is_cut = ready.space is not None and (len(begun) < len(chosen) or ready.space.is_cut(ready.entries))
    caps = _caps(request, ready.groups.values())
    return replace(dispatched, is_contended=ready.is_contended, is_cut=is_cut, caps=caps)


def _caps(request: DispatchRequest, groups: Collection[ReadyGroup]) -> tuple[int, ...] | None:
    if request.max_active_jobs is not None or not all(group.is_enabled for group in groups):
        return None
    return tuple(sorted(group.id for group in groups if group.max_active_jobs is not None))


def _close_early(request: DispatchRequest, ready: ReadyWork) -> Operation[None]:
    """Let open entries wait for an instant that is to come: a clock was set back after their gate opened."""
    heads = [
        {"group_id": group.id, "train_name": train}
        for group in ready.groups.values()
        for train in group.trains or request.trains
    ]
    if (yield batch("close_early_heads", heads, owner=request.owner, limit=_CLOSED_AT_ONCE)):
        yield statement("notify", payload=f"later:{request.owner}")


def load_ready(request: DispatchRequest) -> Operation[ReadyWork]:
    """Lock and load the top entries of every group that has ready work and room for it."""
    groups = yield from ready_groups(request.owner, request.trains, request.worker_id)
    capacity = yield from measure_capacity(request, groups)
    return (yield from load_entries(request, groups, capacity))


def ready_groups(
    owner: str, trains: Sequence[str], worker_id: str | None = None
) -> Operation[list[ReadyGroup]]:
    """Find the groups with ready work of these trains; none for a worker that was marked lost."""
    rows = yield statement("ready_groups", owner=owner, worker_id=worker_id)
    known = frozenset(trains)
    found: list[ReadyGroup] = []
    for group_id, members in groupby(rows, key=attrgetter("id")):
        pairs = list(members)
        ready = tuple(pair.train_name for pair in pairs if pair.train_name in known)
        if ready and pairs[0].worker_state not in _GONE:
            first, is_mixed = pairs[0], len(ready) < len(pairs)
            found.append(
                ReadyGroup(
                    group_id,
                    first.priority,
                    first.max_active_jobs,
                    first.is_enabled,
                    ready if is_mixed else None,
                )
            )
    return found


def load_entries(
    request: DispatchRequest, groups: Sequence[ReadyGroup], capacity: Capacity
) -> Operation[ReadyWork]:
    """Lock and load the top entries of each group with room; of a disabled group only triggered ones."""
    room = {group.id: _room(capacity, group.id, request.limit) for group in groups}
    space = leave_for_slots(request, capacity, room)
    open_groups = [group for group in groups if room[group.id] > 0]
    share = _share(request, len(open_groups))
    shares = {group.id: min(share, room[group.id]) for group in open_groups}
    entries = yield from _load_shares(request, open_groups, shares)
    larger = _larger_shares(request, entries, shares, room=room)
    if larger:
        deep = [group for group in open_groups if group.id in larger]
        shallow = [entry for entry in entries if entry.manifest_group_id not in larger]
        entries = shallow + (yield from _load_shares(request, deep, larger))
    loaded = {entry.manifest_group_id for entry in entries}
    is_contended = capacity.is_contended or any(
        group.is_enabled and group.id not in loaded for group in open_groups
    )
    by_id = {group.id: group for group in groups}
    return ReadyWork(entries, by_id, capacity, is_contended, space)


def _load_shares(
    request: DispatchRequest, groups: Sequence[ReadyGroup], shares: dict[int, int]
) -> Operation[Rows]:
    entries: Rows = []
    enabled = [group for group in groups if group.is_enabled]
    common = {"owner": request.owner, "min_age_seconds": request.min_age_seconds}
    for name, some in (
        ("load_ready", [group for group in enabled if group.trains is None]),
        ("load_triggered", [group for group in groups if not group.is_enabled]),
    ):
        entries += yield batch(
            name,
            [{"group_id": group.id, "share": shares[group.id]} for group in some],
            trains=list(request.trains),
            **common,
        )
    entries += yield batch(
        "load_ready_of_trains",
        [
            {"group_id": group.id, "train_name": train, "share": shares[group.id]}
            for group in enabled
            for train in group.trains or ()
        ],
        **common,
    )
    return entries


def _larger_shares(
    request: DispatchRequest, entries: Rows, shares: dict[int, int], *, room: dict[int, int]
) -> dict[int, int]:
    """Give the unused shares of other groups to groups that have more entries than their share."""
    missing = request.limit - len(entries)
    if missing <= 0:
        return {}
    loaded = Counter(entry.manifest_group_id for entry in entries)
    most = request.limit if request.worker_id else request.per_group
    larger = {
        group_id: min(share + missing, room[group_id], most)
        for group_id, share in shares.items()
        if loaded[group_id] >= share
    }
    return {group_id: share for group_id, share in larger.items() if share > shares[group_id]}


def measure_capacity(request: DispatchRequest, groups: Sequence[ReadyGroup]) -> Operation[Capacity]:
    """Count active runs under caps; a capped group that another claim has locked gets no room here."""
    caps = {group.id: group.max_active_jobs for group in groups if group.max_active_jobs is not None}
    group_active: dict[int, int] = {}
    is_contended = False
    if caps:
        locked = {row.id for row in (yield statement("lock_capped_groups", ids=list(caps)))}
        counted = yield statement("count_active_by_group", owner=request.owner, ids=list(locked))
        group_active = {row.id: row.active for row in counted}
        is_contended = len(locked) < len(caps)
        caps = {group_id: cap if group_id in locked else 0 for group_id, cap in caps.items()}
    if request.max_active_jobs is None or not groups:
        return Capacity(None, 0, caps, group_active, is_contended)
    if not (yield statement("lock_global_cap", owner=request.owner))[0].is_held:
        return Capacity(0, 0, caps, group_active, is_contended=True)
    active = (yield statement("count_active", owner=request.owner))[0].active
    return Capacity(request.max_active_jobs, active, caps, group_active, is_contended)


def choose_entries(ready: ReadyWork, request: DispatchRequest) -> Rows:
    """Choose by the pure rule: the global cap stops, a group's cap skips only that group."""
    if not ready.entries:
        return []
    if len(ready.groups) == 1 and ready.capacity.free is None:
        (group,) = ready.groups.values()
        if group.trains is None:  # its entries come in order, and no more than it has room for
            return ready.entries[: request.limit]
    by_id = {entry.id: entry for entry in ready.entries}
    candidates = [
        Ready(entry.id, entry.manifest_group_id, ready.groups[entry.manifest_group_id].priority, entry.rank)
        for entry in ready.entries
    ]
    chosen = choose(candidates, ready.capacity, limit=request.limit, turn=request.turn)
    return [by_id[each.entry_id] for each in chosen]


def dispatch_entries(
    request: DispatchRequest, entries: Rows, groups: Mapping[int, ReadyGroup]
) -> Operation[Dispatched]:
    """Turn entries into runs; an entry whose manifest is active or disabled is held by its gate instead."""
    manifests, held = yield from _take_manifests(entries)
    free = [entry for entry in entries if entry.id not in held] if held else entries
    if not free:
        return Dispatched((), len(held))
    started = yield statement(
        "dispatch_entries",
        ids=[entry.id for entry in free],
        worker_id=request.worker_id,
        default_timeout_seconds=request.default_timeout_seconds,
        has_manifests=bool(manifests),
        has_letters=any(entry.dead_letter_id is not None for entry in free),
        has_keys=any(entry.unique_key is not None for entry in free),
    )
    start = ClaimTerms(started[0].fence, started[0].started_at, request.default_timeout_seconds)
    runs = [claimed_run(entry, start, manifests.get(entry.manifest_id)) for entry in free]
    capped = {group.id for group in groups.values() if group.max_active_jobs is not None}
    if capped or request.max_active_jobs is not None:
        is_all = request.max_active_jobs is not None
        runs = [run._replace(is_capped=True) if is_all or run.group_id in capped else run for run in runs]
    return Dispatched(tuple(runs), len(held))


def announce_pending(owner: str) -> Operation[None]:
    """Notify the workers of pending runs."""
    yield statement("notify", payload=f"pending:{owner}")
    yield statement("notify", payload=f"work:{owner}")


def claim_pending(request: DispatchRequest) -> Operation[Dispatched]:
    """Claim pending runs, which a dispatcher has made."""
    if not (yield from _may_claim(request.worker_id)):
        return NOTHING
    rows = yield statement(
        "claim_pending",
        owner=request.owner,
        trains=list(request.trains),
        limit=request.limit,
        worker_id=request.worker_id,
        default_timeout_seconds=request.default_timeout_seconds,
    )
    return Dispatched(tuple(started_run(row) for row in rows))


def _may_claim(worker_id: str | None) -> Operation[bool]:
    """Lock the worker's row, so that it is not marked lost during the claim; a lost worker claims nothing."""
    found = yield statement("hold_worker", id=worker_id)
    return all(row.state not in _GONE for row in found)


def _take_manifests(entries: Rows) -> Operation[tuple[dict[int, Row], set[int]]]:
    """Lock the entries' manifests without waiting; return them, and the entries that cannot run now."""
    ids = {entry.manifest_id for entry in entries} - {None}
    if not ids:
        return {}, set()
    rows = yield statement("lock_idle_manifests", ids=sorted(ids))
    manifests = {row.id: row for row in rows}
    return manifests, (yield from _hold_blocked(entries, manifests))


def _hold_blocked(entries: Rows, manifests: dict[int, Row]) -> Operation[set[int]]:
    """Hold entries of active or disabled manifests; return them, and the entries of unlocked manifests."""
    unlocked = {
        entry.id for entry in entries if entry.manifest_id is not None and entry.manifest_id not in manifests
    }
    blocked = [entry.id for entry in entries if _is_blocked(entry, manifests.get(entry.manifest_id))]
    if blocked:
        yield statement("hold_entries", ids=blocked)
    return unlocked.union(blocked)


def _is_blocked(entry: Row, manifest: Row | None) -> bool:
    if manifest is None:
        return False
    may_run = manifest.is_open or entry.origin == "trigger"
    return manifest.active_run_id is not None or not may_run


def _room(capacity: Capacity, group_id: int, limit: int) -> int:
    cap = capacity.group_caps.get(group_id)
    return limit if cap is None else max(cap - capacity.group_active.get(group_id, 0), 0)


def _share(request: DispatchRequest, groups: int) -> int:
    """Let a single group fill the claim; limit each of several groups to a share, so that none starves."""
    if groups <= 1:
        return request.limit if request.worker_id else min(request.limit, request.per_group)
    return max(1, min(request.per_group, 2 * request.limit // groups))


def started_run(row: Row) -> ClaimedRun:
    """Read a run that a claim has started; its timeout is resolved already."""
    start = ClaimTerms(row.fence, row.started_at, row.timeout_seconds)
    return claimed_run(row, start, None)._replace(manifest=row.manifest)


def claimed_run(entry: Row, start: ClaimTerms, manifest: Row | None) -> ClaimedRun:
    """Build a run from an entry and its claim; by position, because this is called for every entry."""
    timeout = entry.timeout_seconds
    if timeout is None:
        timeout = manifest.timeout_seconds if manifest is not None else None
    return ClaimedRun(
        entry.id,
        start.fence,
        entry.train_name,
        entry.input,
        entry.manifest_id,
        None if manifest is None else manifest.external_id,
        entry.manifest_group_id,
        entry.due_at,
        entry.attempt,
        start.at,
        entry.scheduled_at,
        entry.failures,
        entry.losses,
        entry.lone_losses,
        entry.max_retries,
        entry.is_retried,
        entry.retry_delay_seconds,
        start.default_timeout_seconds if timeout is None else timeout,
        entry.unique_key,
    )
