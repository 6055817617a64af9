"""Where a manifest's cursor stands when it is made, and where it goes when its schedule changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from gandy.model.schedule import Cron, Dependent, DormantDependent, Interval, Manual, Once
from gandy.rules.calendar import cron

if TYPE_CHECKING:
    from datetime import datetime

    from gandy.model.schedule import Schedule


def first_cursor(schedule: Schedule, now: datetime) -> datetime | None:
    """Place the cursor of a new manifest: an interval is due at once, a cron at its first occurrence."""
    match schedule:
        case Cron():
            return cron.next_after(schedule.expression, schedule.timezone, now)
        case Interval():
            return now
        case Once():
            return schedule.due_at(now)
        case Manual() | Dependent() | DormantDependent():
            return None
        case _:
            assert_never(schedule)


def changed_cursor(
    before: Schedule, after: Schedule, *, cursor: datetime | None, now: datetime
) -> datetime | None:
    """Place the cursor when a manifest is declared again: only a changed schedule moves it."""
    if _same_instants(before, after):
        return cursor
    if isinstance(before, Interval) and isinstance(after, Interval) and cursor is not None:
        # Counted from the instant before, so that a deploy makes nothing due that has just run.
        return max(now, cursor - before.every + after.every)
    if isinstance(after, Interval):
        # Not due at once like a new one: two versions that are deployed in turn would run it each time.
        following = now + after.every
        return following if cursor is None else max(now, min(cursor, following))
    return first_cursor(after, now)


def _same_instants(before: Schedule, after: Schedule) -> bool:
    """Tell whether only the zone of the exclusions differs, or nothing."""
    if isinstance(before, Interval) and isinstance(after, Interval):
        return before.every == after.every
    if isinstance(before, Once) and isinstance(after, Once):
        return replace(before, timezone=after.timezone) == after
    return before == after
