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

    @property
    def free(self) -> int | None:
        """How many more may run in all; None: any number."""
        return None if self.max_active_jobs is None else max(self.max_active_jobs - self.active, 0)

    def group_is_full(self, group_id: int, taken: int) -> bool:
        """Tell whether a group may start nothing more once `taken` of its entries are."""
        cap = self.group_caps.get(group_id)
        return cap is not None and self.group_active.get(group_id, 0) + taken >= cap


def choose(ready: Iterable[Ready], capacity: Capacity) -> list[Ready]:
    """Choose what to dispatch, in the order of group priority, entry priority and age."""
    chosen: list[Ready] = []
    taken: Counter[int] = Counter()
    for entry in sorted(ready, key=_precedence):
        if capacity.free is not None and len(chosen) >= capacity.free:
            break
        if not capacity.group_is_full(entry.group_id, taken[entry.group_id]):
            chosen.append(entry)
            taken[entry.group_id] += 1
    return chosen


def _precedence(entry: Ready) -> tuple[int, int, int]:
    return -entry.group_priority, -entry.rank, entry.entry_id
