"""Whether the manager will look at a manifest in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.rules.due import determine
from gandy.rules.retry import is_exhausted

if TYPE_CHECKING:
    from datetime import datetime

    from gandy.model.manifest import DispatchView


def missing_look(view: DispatchView, now: datetime, *, is_spent: bool | None = None) -> datetime | None:
    """Return the instant of the look that is missing, or would come too late; an early one does no harm.

    `is_spent` says whether it is to be parked, where that depends on more than its failures.
    """
    needed = needed_look(view, now, is_spent=is_exhausted_view(view) if is_spent is None else is_spent)
    if needed is None or (view.next_look_at is not None and view.next_look_at <= needed):
        return None
    return needed


def is_exhausted_view(view: DispatchView) -> bool:
    """Tell whether a manifest used up its attempts, with no retry to come, and has no letter yet."""
    is_over = view.is_retried and is_exhausted(view.failed_count, view.max_retries)
    return is_over and not (view.has_queued_retry or view.has_awaiting_dead_letter)


def needed_look(view: DispatchView, now: datetime, *, is_spent: bool) -> datetime | None:
    """Return when the manifest needs a look; None: not before something changes."""
    if is_spent:
        return now
    decision = determine(view, now)
    if decision.occurrence is None and decision.deferred_by is not None:
        return None  # who lifts the guard brings the look, and what could be settled meanwhile waits with it
    return now if decision.has_verdict else decision.next_look_at
