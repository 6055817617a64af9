"""What keeps a due manifest from being queued, whatever its schedule says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.model.schedule import SkipReason

if TYPE_CHECKING:
    from gandy.model.manifest import DispatchView


def guard_of(view: DispatchView) -> SkipReason | None:
    """Name the guard that holds; a retry that waits is a queued entry like any other, and keeps its delay."""
    if view.is_dead_lettered_now or view.has_awaiting_dead_letter:
        return SkipReason.DEAD_LETTER
    if view.has_queued_work:
        return SkipReason.ALREADY_QUEUED
    return SkipReason.ACTIVE if view.has_active_execution else None
