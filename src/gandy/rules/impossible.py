"""Cursors that no sane clock can have set, and where they belong."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.model.schedule import Cron, Interval
from gandy.rules.calendar.series import Plan, series_between
from gandy.rules.calendar.timetable import IntervalTimetable, timetable_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime
    from typing import Final

    from gandy.model.manifest import DispatchView
    from gandy.rules.calendar.timetable import Timetable

#: A cursor further than this beyond the next occurrence was set under a clock that was wrong.
FAR: Final = timedelta(hours=1)
_MOMENT: Final = timedelta(microseconds=1)


def is_impossible(view: DispatchView, now: datetime) -> bool:
    """Tell whether a cursor lies more than an hour beyond the next occurrence that no exclusion removes.

    One that an operator set is possible wherever it lies.
    """
    cursor = view.next_scheduled_run
    if not isinstance(view.schedule, Cron | Interval) or cursor is None or cursor <= now + FAR:
        return False
    if view.is_next_set:
        return False
    plan = Plan(true_timetable(view, now), view.exclusions, view.timezone)
    passed = series_between(plan, now + _MOMENT, cursor - FAR - _MOMENT)
    return any(not series.is_excluded for series in passed)


def true_cursor(view: DispatchView, now: datetime, *, taken: Collection[datetime]) -> datetime | None:
    """Find the first instant after now whose verdict is not yet that it runs."""
    timetable = true_timetable(view, now)
    at = timetable.next_after(now)
    while at is not None and at in taken:
        at = timetable.next_after(at)
    return at


def true_timetable(view: DispatchView, now: datetime) -> Timetable:
    """Lay out the instants from now on; an interval keeps the beat of its cursor."""
    schedule, cursor = view.schedule, view.next_scheduled_run
    if isinstance(schedule, Interval):
        beat = cursor or now
        return IntervalTimetable(
            schedule.every, beat - max((beat - now) // schedule.every, 0) * schedule.every
        )
    if isinstance(schedule, Cron):
        return timetable_of(schedule, now)
    raise AssertionError("only a recurring schedule has a timetable")
