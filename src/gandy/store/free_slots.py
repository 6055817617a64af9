"""What is under a cap is claimed for free slots: held in advance, it would keep a place from others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.rules.dispatching import Capacity
    from gandy.store.dispatching import DispatchRequest
    from gandy.store.statements import Rows

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
