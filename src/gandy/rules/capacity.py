"""Which ready entries are dispatched: the global cap stops the cycle, a group's cap only that group."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Ready:
    """A queued entry whose time has come."""

    entry_id: int  #: ids rise with age
    group_id: int
    group_priority: int
    rank: int  #: the entry's priority; a dependent's boost is in it


@dataclass(frozen=True, slots=True)
class Capacity:
    """Caps and what is active now; a group without a cap is missing from `group_caps`."""

    max_active_jobs: int | None
    active: int
    group_caps: Mapping[int, int]
    group_active: Mapping[int, int]
    is_contended: bool = False  #: another claim holds a cap: what it leaves is not known here

    @property
    def free(self) -> int | None:
        """How many more may run in all; None: any number."""
        return None if self.max_active_jobs is None else max(self.max_active_jobs - self.active, 0)

    def is_over(self, group_id: int) -> bool:
        """Tell whether a cap limits the runs of a group, its own or the one over all."""
        return self.max_active_jobs is not None or group_id in self.group_caps

    def group_is_full(self, group_id: int, taken: int) -> bool:
        """Tell whether a group may start nothing more once `taken` of its entries are."""
        cap = self.group_caps.get(group_id)
        return cap is not None and self.group_active.get(group_id, 0) + taken >= cap


def choose(
    ready: Iterable[Ready], capacity: Capacity, *, limit: int | None = None, turn: int = 0
) -> list[Ready]:
    """Choose what to dispatch, in the order of group priority, entry priority and age.

    Half of a limit is shared: each group with ready work gets an equal part of it, and at least one, so that
    no group waits behind another's backlog; the rest goes in order. A limit below the number of groups goes
    to them in rotation from turn to turn; where their priorities differ, every second turn goes in order.
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
    """The entries chosen so far, and how many of each group they are."""

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
    """Say how many each group gets before the order decides."""
    priorities = {entry.group_id: entry.group_priority for entry in ordered}
    groups = sorted(priorities)
    if most >= len(groups):
        return dict.fromkeys(groups, max(1, most // (2 * len(groups))))
    if not turn or (turn % 2 == 0 and len(set(priorities.values())) > 1):
        return {}  # a higher priority has every second turn to itself
    first = turn * most if len(set(priorities.values())) == 1 else turn // 2 * most
    return {groups[(first + place) % len(groups)]: 1 for place in range(most)}


def _least_of(limit: int | None, free: int | None, count: int) -> int:
    return min(each for each in (limit, free, count) if each is not None)


def _precedence(entry: Ready) -> tuple[int, int, int]:
    return -entry.group_priority, -entry.rank, entry.entry_id
