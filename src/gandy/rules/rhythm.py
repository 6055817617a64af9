"""How dense the instants of a schedule are where a run of it failed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from gandy.errors import ScheduleError
from gandy.model.schedule import Cron, Interval
from gandy.rules.calendar.series import Plan, series_between
from gandy.rules.calendar.timetable import timetable_of

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Final

    from gandy.model.exclusion import Exclusion
    from gandy.model.schedule import Schedule
    from gandy.rules.calendar.timetable import Timetable

_MOMENT: Final = timedelta(microseconds=1)


class Rhythm(NamedTuple):
    """The schedule of a failing manifest, and since when it fails."""

    schedule: Schedule
    exclusions: tuple[Exclusion, ...]
    cursor: datetime | None  #: the next instant without a verdict
    now: datetime
    failing_since: datetime  #: the first failure after the last success
    is_own_input: bool = True  #: the failed run had the input that the coming instants have

    @property
    def failing_for(self) -> timedelta:
        """How long ago the first of these failures is."""
        return self.now - self.failing_since


def is_denser(rhythm: Rhythm, delay: timedelta) -> bool:
    """Tell whether the two instants around now, exclusions left out, are less than the delay apart."""
    schedule, cursor = rhythm.schedule, rhythm.cursor
    if cursor is None or not isinstance(schedule, Cron | Interval):
        return False
    if isinstance(schedule, Interval) and not rhythm.exclusions:
        return schedule.every < delay
    try:
        return _gap(rhythm, schedule, cursor, within=delay) < delay
    except (ScheduleError, OverflowError):  # unreadable here, or at the end of time: a retry is certain
        return False


def _gap(rhythm: Rhythm, schedule: Cron | Interval, cursor: datetime, *, within: timedelta) -> timedelta:
    """Measure the gap between the instants around now; one as long as the span is not looked at further."""
    at = min(rhythm.now, cursor - _MOMENT)  # an instant that has come and has no verdict is still ahead
    plan = Plan(_timetable(schedule, cursor, within), rhythm.exclusions, schedule.timezone)
    before = [each.last for each in series_between(plan, at - within, at) if not each.is_excluded]
    after = [each.first for each in series_between(plan, at + _MOMENT, at + within) if not each.is_excluded]
    return after[0] - before[-1] if before and after else within


def _timetable(schedule: Cron | Interval, cursor: datetime, delay: timedelta) -> Timetable:
    """Lay out the instants on both sides of the cursor: a rate has none before its anchor."""
    if isinstance(schedule, Interval):
        cursor -= schedule.every * (delay // schedule.every + 1)
    return timetable_of(schedule, cursor)
