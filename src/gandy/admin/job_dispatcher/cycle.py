"""What one cycle is given, what its junctions hand on, and what it has done in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.model.run import ClaimedRun
    from gandy.rules.dispatching import Capacity
    from gandy.store.dispatching import DispatchRequest, ReadyGroup
    from gandy.store.statements import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRequest:
    """Whose work is dispatched, under which cap."""

    owner: str
    known_trains: tuple[str, ...]  #: of this application; the live workers' are added
    max_active_jobs: int | None  #: a number that the user set; None with `is_cap_auto`: by the live workers
    is_cap_auto: bool
    max_per_group: int
    default_timeout_seconds: float
    min_age_seconds: float = 0.0  #: leave younger entries to the workers that ask for themselves


@dataclass(frozen=True, slots=True)
class ReadyGroups:
    """The groups that have ready work, and how it may be taken."""

    request: DispatchRequest
    groups: Sequence[ReadyGroup]
    opened: int
    held: int

    @property
    def by_id(self) -> dict[int, ReadyGroup]:
        """The groups by their ids."""
        return {group.id: group for group in self.groups}


@dataclass(frozen=True, slots=True)
class MeasuredCapacity:
    """The caps and what is active under them."""

    capacity: Capacity


@dataclass(frozen=True, slots=True)
class ChosenEntries:
    """The entries that may run now."""

    entries: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """What a cycle did."""

    dispatched: tuple[ClaimedRun, ...] = ()
    held: int = 0
    opened: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """What was done, in words and numbers."""
        return {"dispatched": len(self.dispatched), "held": self.held, "opened": self.opened}

    @property
    def is_idle(self) -> bool:
        """Whether nothing was there to do."""
        return not any(self.counts.values())
