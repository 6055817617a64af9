"""What keeps a due manifest from being queued, whatever its schedule says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.model.schedule import SkipReason

if TYPE_CHECKING:
    from gandy.model.manifest import DispatchView


def guard_of(view: DispatchView) -> SkipReason | None:
    """Name the guard that holds; `coalesced` is an entry that is only the retry of a failed run."""
    if view.is_dead_lettered_now or view.has_awaiting_dead_letter:
        return SkipReason.DEAD_LETTER
    if view.has_queued_work:
        return SkipReason.COALESCED if view.is_queued_work_a_retry else SkipReason.ALREADY_QUEUED
    return SkipReason.ACTIVE if view.has_active_execution else None


def held_by(guard: SkipReason) -> SkipReason:
    """Name the guard as it looks to what only waits: a waiting retry is a queued entry like any other."""
    return SkipReason.ALREADY_QUEUED if guard is SkipReason.COALESCED else guard
