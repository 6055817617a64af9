"""The order of dispatch: priorities, capacity of groups, and fair shares."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Final


@dataclass(frozen=True, slots=True)
class Ready:
    """A queued entry that is due."""

    entry_id: int  #: ascending: a lower id is older
    group_id: int
    group_priority: int
    rank: int  #: the entry's priority, including the boost of a dependent


@dataclass(frozen=True, slots=True)
class Capacity:
    """Caps and the number of active runs; a group without a cap is not in `group_caps`."""

    max_active_jobs: int | None
    active: int
    group_caps: Mapping[int, int]
    group_active: Mapping[int, int]
    is_contended: bool = False  #: another claim holds the lock of a cap, so the free places are unknown

    @property
    def free(self) -> int | None:
        """The number of further runs under the global cap; None: unlimited."""
        return None if self.max_active_jobs is None else max(self.max_active_jobs - self.active, 0)

    def is_over(self, group_id: int) -> bool:
        """Return whether a cap limits the runs of a group: its own or the global cap."""
        return self.max_active_jobs is not None or group_id in self.group_caps

    def group_is_full(self, group_id: int, taken: int) -> bool:
        """Return whether a group is full after `taken` of its entries were chosen."""
        cap = self.group_caps.get(group_id)
        return cap is not None and self.group_active.get(group_id, 0) + taken >= cap


def choose(
    ready: Iterable[Ready], capacity: Capacity, *, limit: int | None = None, turn: int = 0
) -> list[Ready]:
    """Choose the entries to dispatch, in the order of group priority, entry priority and age.

    Half of a limit is shared: each group with ready work gets an equal part of it, and at least one entry,
    so that no group waits behind another's backlog; the rest is chosen in order. If the limit is below the
    number of groups, the groups rotate from turn to turn; if their priorities differ, every second turn is
    in order.
    """
    ordered = sorted(ready, key=_precedence)
    most = _least_of(limit, capacity.free, len(ordered))
    shares = _shares(ordered, most, turn) if most < len(ordered) else {}
    choice = _Choice(capacity)
    for entry in ordered:
        if choice.taken[entry.group_id] < shares.get(entry.group_id, 0):
            choice.take(entry)
    for entry in ordered:
        if len(choice.entries) >= most:
            break
        choice.take(entry)
    return sorted(choice.entries.values(), key=_precedence)


class _Choice:
    """The entries chosen so far, and their number by group."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self.entries: dict[int, Ready] = {}
        self.taken: Counter[int] = Counter()

    def take(self, entry: Ready) -> None:
        """Add an entry, unless its group is full."""
        is_full = self._capacity.group_is_full(entry.group_id, self.taken[entry.group_id])
        if not is_full and entry.entry_id not in self.entries:
            self.entries[entry.entry_id] = entry
            self.taken[entry.group_id] += 1


def _shares(ordered: list[Ready], most: int, turn: int) -> dict[int, int]:
    """Return the share of each group before the rest is chosen in order."""
    priorities = {entry.group_id: entry.group_priority for entry in ordered}
    groups = sorted(priorities)
    if most >= len(groups):
        return dict.fromkeys(groups, max(1, most // (2 * len(groups))))
    if not turn or (turn % 2 == 0 and len(set(priorities.values())) > 1):
        return {}  # every second turn is by priority alone
    first = turn * most if len(set(priorities.values())) == 1 else turn // 2 * most
    return {groups[(first + place) % len(groups)]: 1 for place in range(most)}


def _least_of(limit: int | None, free: int | None, count: int) -> int:
    return min(each for each in (limit, free, count) if each is not None)


def _precedence(entry: Ready) -> tuple[int, int, int]:
    return -entry.group_priority, -entry.rank, entry.entry_id


#: The maximum size of a set of looks, after which a cycle checks its time; the second size applies if the
#: number of entries is unlimited.
MOST_LOOKS: Final = 2_000
MOST_UNLIMITED_LOOKS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Demand:
    """The due manifests of a group."""

    group_id: int
    priority: int
    due: int
    oldest_due_at: datetime  #: of two groups with the same priority, the older one goes first


@dataclass(frozen=True, slots=True)
class WantedEntry:
    """One entry that a manifest wants."""

    manifest_id: int
    group_id: int
    group_priority: int
    priority: int
    due_at: datetime


def share(limit: int | None, demands: Sequence[Demand]) -> dict[int, int]:
    """Give every group an equal share, then the rest to the groups of higher priority first."""
    if limit is None:
        return {demand.group_id: demand.due for demand in demands}
    wanting = sorted(
        (demand for demand in demands if demand.due > 0),
        key=lambda demand: (-demand.priority, demand.oldest_due_at, demand.group_id),
    )
    shares = {demand.group_id: 0 for demand in demands}
    even = max(limit // len(wanting), 1) if wanting else 0
    left = max(limit, 0)
    for most in (even, left):
        for demand in wanting:
            given = min(most, demand.due - shares[demand.group_id], left)
            shares[demand.group_id] += given
            left -= given
    return shares


def entitled(limit: int | None, demands: Sequence[Demand], queued: Mapping[int, int]) -> dict[int, int]:
    """Return the number of further entries of each group in this cycle, besides those already `queued`."""
    here = {demand.group_id: queued.get(demand.group_id, 0) for demand in demands}
    elsewhere = sum(queued.values()) - sum(here.values())
    whole = [replace(demand, due=demand.due + here[demand.group_id]) for demand in demands]
    shares = share(None if limit is None else limit - elsewhere, whole)
    wanted = [
        replace(demand, due=max(shares[demand.group_id] - here[demand.group_id], 0)) for demand in demands
    ]
    # a group that already has more than its share leaves less to the others
    return share(None if limit is None else limit - sum(queued.values()), wanted)


def most_at_once(limit: int | None) -> int:
    """Return how many due manifests a cycle looks at without sharing its looks between groups."""
    return MOST_UNLIMITED_LOOKS if limit is None else limit


def looks(
    limit: int | None, demands: Sequence[Demand], entries: Mapping[int, int], *, times: int = 1
) -> dict[int, int]:
    """Return the number of looks of each group for its `entries`, times `times`, as many looks yield none."""
    most = MOST_UNLIMITED_LOOKS if limit is None else max(limit, MOST_LOOKS)
    wanted = [replace(demand, due=min(demand.due, entries[demand.group_id] * times)) for demand in demands]
    return {group_id: count for group_id, count in share(most, wanted).items() if count > 0}


def pick(limit: int | None, wanted: Iterable[WantedEntry]) -> list[WantedEntry]:
    """Pick the entries of this cycle: fairly between groups, by priority and age within a group."""
    groups: defaultdict[int, list[WantedEntry]] = defaultdict(list)
    for entry in wanted:
        groups[entry.group_id].append(entry)
    shares = share(limit, [_demand(entries) for entries in groups.values()])
    return [
        entry
        for group_id, entries in groups.items()
        for entry in sorted(entries, key=_group_precedence)[: shares[group_id]]
    ]


def _demand(entries: list[WantedEntry]) -> Demand:
    oldest = min(entry.due_at for entry in entries)
    return Demand(entries[0].group_id, entries[0].group_priority, len(entries), oldest)


def _group_precedence(entry: WantedEntry) -> tuple[int, datetime, int]:
    return -entry.priority, entry.due_at, entry.manifest_id


def entry_priority(manifest: int | None, group: int) -> int:
    """Return the manifest's priority, else its group's."""
    return group if manifest is None else manifest
