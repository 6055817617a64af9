"""Whether a manifest is due, and what becomes of every instant that has come.

In this order: exclusions, the misfire policy for what is late, then the guards. Every verdict moves the
cursor past `now`; what has to wait is not looked at again before something changes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from gandy.errors import ScheduleError
from gandy.model.manifest import Decision, DispatchView, Occurrence, Skipped
from gandy.model.schedule import (
    Cron,
    Dependent,
    DormantDependent,
    Interval,
    Manual,
    Once,
    Origin,
    SkipReason,
)
from gandy.rules.calendar.exclusions import is_excluded
from gandy.rules.guards import guard_of
from gandy.rules.priority import entry_priority
from gandy.rules.recurring import determine_recurring
from gandy.rules.verdicts import deferred, idle, scheduled

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Final

#: A zone that is missing here may be known after the next update of this machine.
_UNREADABLE_RETRY_AFTER: Final = timedelta(hours=1)


def determine(view: DispatchView, now: datetime) -> Decision:
    """Decide about one manifest; a schedule that cannot be read is that manifest's problem alone."""
    if not view.may_run:
        return idle(view)
    try:
        return decide(view, now)
    except ScheduleError as error:
        look_again = idle(view, next_look_at=now + _UNREADABLE_RETRY_AFTER)
        return replace(look_again, problem=str(error))


def decide(view: DispatchView, now: datetime) -> Decision:
    """Decide about a manifest that is switched on; an unreadable schedule is raised."""
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
    """Run the instant however late it is: there is no next one to wait for."""
    due_at = view.next_scheduled_run
    if due_at is None or due_at > now:
        return idle(view, next_look_at=due_at)
    if is_excluded(view.exclusions, due_at, view.timezone):
        return Decision(view.id, None, skipped=(Skipped(due_at, due_at, 1, SkipReason.EXCLUDED),))
    guard = guard_of(view)
    if guard is not None:
        return deferred(view, guard)
    return Decision(view.id, None, occurrence=scheduled(view, due_at))


def _determine_dependent(view: DispatchView, now: datetime) -> Decision:
    """Follow every success of the parent that no entry of this manifest has followed yet."""
    has_new_success = (
        view.parent_has_successful_metadata and view.parent_success_count > view.parent_success_seen
    )
    if not (has_new_success and view.parent_enabled):
        return idle(view)
    guard = guard_of(view)
    if guard is not None:
        return deferred(view, guard)
    priority = entry_priority(view.priority, view.group_priority)
    return Decision(
        view.id,
        None,
        occurrence=Occurrence(now, now, Origin.DEPENDENT, priority),
        parent_success_seen=view.parent_success_count,
    )
