"""Decide about a manifest: a snapshot in, a decision out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, assert_never

from gandy.errors import ScheduleError
from gandy.model.manifest import Decision, DispatchView, Occurrence, Skipped
from gandy.model.schedule import Cron, Dependent, DormantDependent, Interval, Manual, Once, Origin, SkipReason
from gandy.rules.dispatching import entry_priority
from gandy.rules.ending import is_exhausted
from gandy.rules.exclusions import is_excluded
from gandy.rules.recurring import deferred, determine_recurring, guard_of, idle, scheduled

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Final


#: A zone that is missing here may be available after the next update of this machine.
_UNREADABLE_RETRY_AFTER: Final = timedelta(hours=1)


def determine(view: DispatchView, now: datetime) -> Decision:
    """Decide about one manifest; an unreadable schedule becomes the `problem` of its decision."""
    if not view.may_run:
        return idle(view)
    try:
        return decide(view, now)
    except ScheduleError as error:
        look_again = idle(view, next_look_at=now + _UNREADABLE_RETRY_AFTER)
        return replace(look_again, problem=str(error))


def decide(view: DispatchView, now: datetime) -> Decision:
    """Decide about an enabled manifest; raise for an unreadable schedule."""
    match view.schedule:
        case Cron() | Interval():
            return determine_recurring(view, view.schedule, now)
        case Once():
            return _determine_once(view, now)
        case Dependent():
            return _determine_dependent(view, now)
        case Manual() | DormantDependent():
            return idle(view)
        case _:
            assert_never(view.schedule)


def _determine_once(view: DispatchView, now: datetime) -> Decision:
    """Queue the instant even if it is late: there is no next instant."""
    due_at = view.next_scheduled_run
    if due_at is None or due_at > now:
        return idle(view, next_look_at=due_at)
    if is_excluded(view.exclusions, due_at, view.timezone):
        return Decision(None, skipped=(Skipped(due_at, due_at, 1, SkipReason.EXCLUDED),))
    guard = guard_of(view)
    if guard is not None:
        return deferred(view, guard)
    return Decision(None, occurrence=scheduled(view, due_at))


def _determine_dependent(view: DispatchView, now: datetime) -> Decision:
    """Queue an entry if every parent has ended since the last entry; its ends are then seen."""
    if not (view.parents_ended and view.parents_enabled):
        return idle(view)
    guard = guard_of(view)
    if guard is not None:
        return deferred(view, guard)
    priority = entry_priority(view.priority, view.group_priority)
    return Decision(None, occurrence=Occurrence(now, now, Origin.DEPENDENT, priority))


_NONE: Final = timedelta(0)


@dataclass(slots=True)
class Decider:
    """Decides with a cache: manifests that differ only in their identity share a decision."""

    now: datetime
    _known: dict[object, Decision] = field(default_factory=dict)

    def determine(self, view: DispatchView) -> Decision:
        """Decide about one manifest; a decision with jitter, which differs by manifest, is not shared."""
        if view.variance > _NONE:
            return determine(view, self.now)
        key = _key(view)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = determine(view, self.now)
        return known


#: The fields that do not affect a decision.
_IDENTITY: Final = frozenset(
    (
        "id", "external_id", "owner", "train", "group_id", "version", "completed_at", "created_at",
        "next_look_at", "served_through", "served_from",
    )
)  # fmt: skip
_DECIDING: Final = tuple(
    position for position, name in enumerate(DispatchView._fields) if name not in _IDENTITY
)
_key: Final = itemgetter(*_DECIDING)


def missing_look(view: DispatchView, now: datetime, *, is_spent: bool | None = None) -> datetime | None:
    """Return the instant of the look that is missing or too late; a look that is too early is harmless.

    `is_spent`: whether it is to be parked, if that depends on more than its failures.
    """
    needed = needed_look(view, now, is_spent=is_exhausted_view(view) if is_spent is None else is_spent)
    if needed is None or (view.next_look_at is not None and view.next_look_at <= needed):
        return None
    return needed


def is_exhausted_view(view: DispatchView) -> bool:
    """Return whether a manifest has used up its attempts, with no queued retry and no dead letter yet."""
    is_over = view.is_retried and is_exhausted(view.failed_count, view.max_retries)
    return is_over and not (view.has_queued_retry or view.has_awaiting_dead_letter)


def needed_look(view: DispatchView, now: datetime, *, is_spent: bool) -> datetime | None:
    """Return the instant at which the manifest needs a look; None: when something changes."""
    if is_spent:
        return now
    decision = determine(view, now)
    if decision.occurrence is None and decision.deferred_by is not None:
        return None  # the event that lifts the guard triggers the look
    return now if decision.has_verdict else decision.next_look_at
