"""The nominal instants of a recurring schedule, cron and interval alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, assert_never

from gandy.model.schedule import Cron, Interval
from gandy.rules.calendar import cron

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Timetable(Protocol):
    """Questions about instants; each is answered by arithmetic, however long the span."""

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first instant after this one; None when there is none any more."""

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """Find the last instant of a span, both ends included."""

    def count_between(self, since: datetime, until: datetime) -> int:
        """Count the instants of a span, both ends included."""


@dataclass(frozen=True, slots=True)
class CronTimetable:
    """The instants of a cron expression in its zone."""

    schedule: Cron

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first occurrence after this instant."""
        return cron.next_after(self.schedule.expression, self.schedule.timezone, instant)

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """Find the last occurrence of a span."""
        return cron.last_between(self.schedule.expression, self.schedule.timezone, since=since, until=until)

    def count_between(self, since: datetime, until: datetime) -> int:
        """Count the occurrences of a span."""
        return cron.count_between(self.schedule.expression, self.schedule.timezone, since=since, until=until)


@dataclass(frozen=True, slots=True)
class WithInstant:
    """A timetable with one more instant, that a person set and the schedule itself does not know."""

    timetable: Timetable
    set_to: datetime

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first instant after this one."""
        found = self.timetable.next_after(instant)
        if self.set_to <= instant:
            return found
        return self.set_to if found is None else min(found, self.set_to)

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """Find the last instant of a span."""
        found = self.timetable.last_between(since, until)
        if not since <= self.set_to <= until:
            return found
        return self.set_to if found is None else max(found, self.set_to)

    def count_between(self, since: datetime, until: datetime) -> int:
        """Count the instants of a span; the set one is counted once."""
        count = self.timetable.count_between(since, until)
        is_known = self.timetable.last_between(self.set_to, self.set_to) is not None
        return count + (since <= self.set_to <= until and not is_known)


@dataclass(frozen=True, slots=True)
class IntervalTimetable:
    """Every multiple of the interval after an anchor; nothing before it."""

    every: timedelta
    anchor: datetime

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first multiple after this instant."""
        try:
            return self.anchor + max((instant - self.anchor) // self.every + 1, 0) * self.every
        except OverflowError:
            return None

    def last_between(self, since: datetime, until: datetime) -> datetime | None:
        """Find the last multiple of a span."""
        last = self.anchor + (until - self.anchor) // self.every * self.every
        return last if last >= max(since, self.anchor) else None

    def count_between(self, since: datetime, until: datetime) -> int:
        """Count the multiples of a span."""
        before = -((self.anchor - max(since, self.anchor)) // self.every)
        return max((until - self.anchor) // self.every + 1 - before, 0)


def timetable_of(schedule: Cron | Interval, cursor: datetime) -> Timetable:
    """Lay out the instants of a schedule; the cursor is one of them, and anchors an interval."""
    match schedule:
        case Cron():
            return CronTimetable(schedule)
        case Interval():
            return IntervalTimetable(schedule.every, cursor)
        case _:
            assert_never(schedule)
