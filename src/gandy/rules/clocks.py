"""Wrong clocks: when to distrust a clock, and how to find cursors that a wrong clock has set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING

from gandy.model.schedule import Cron, Interval, Recurring, Span
from gandy.rules.timetable import InstantPlan, IntervalTimetable, series_between, timetable_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime
    from typing import Final

    from gandy.clock import Steadiness
    from gandy.model.manifest import DispatchView
    from gandy.rules.timetable import Timetable


#: A clock that is further than this from the newest recorded instant may be wrong. It is a little more than a
#: day, so that a command which runs once a day may be late without distrusting the clock.
LONGEST_SILENCE: Final = timedelta(days=1, minutes=30)


@dataclass(frozen=True, slots=True)
class ClockDoubt:
    """The reason not to trust a clock."""

    now: datetime
    newest: datetime | None  #: the newest recorded instant; None: the clock jumped while observed

    @property
    def is_behind(self) -> bool:
        """Whether the clock is far behind the recorded time: acting on it could repeat past work."""
        return self.newest is not None and self.now < self.newest

    def __str__(self) -> str:
        if self.newest is None:
            return f"the clock was changed by more than an hour and shows {_told(self.now)} now"
        side = "beyond" if self.now > self.newest else "before"
        return (
            f"the clock shows {_told(self.now)}, which is more than a day {side} {_told(self.newest)}, "
            "the newest recorded instant"
        )


def doubt(now: datetime, newest: datetime | None, steadiness: Steadiness) -> ClockDoubt | None:
    """Return the reason not to trust a clock; None in a new database, or after ten steady minutes."""
    if newest is not None and not steadiness.is_steady and abs(now - newest) > LONGEST_SILENCE:
        return ClockDoubt(now, newest)
    return ClockDoubt(now, None) if steadiness.has_jumped else None


def _told(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}Z"


#: A cursor further than this beyond the next occurrence was set by a wrong clock.
FAR: Final = timedelta(hours=1)
_MOMENT: Final = timedelta(microseconds=1)


def is_impossible(view: DispatchView, now: datetime) -> bool:
    """Return whether a cursor lies more than an hour beyond the next occurrence that no exclusion removes.

    A cursor that an operator set is always possible.
    """
    cursor = view.next_scheduled_run
    if not isinstance(view.schedule, Recurring) or cursor is None or cursor <= now + FAR:
        return False
    if view.is_next_set:
        return False
    plan = InstantPlan(true_timetable(view, now), view.exclusions, view.timezone)
    passed = series_between(plan, now + _MOMENT, cursor - FAR - _MOMENT)
    return any(not series.is_excluded for series in passed)


def true_cursor(view: DispatchView, now: datetime, *, taken: Collection[datetime]) -> datetime | None:
    """Return the first instant after now that was not decided under another clock.

    `taken` has the instants that were already queued.
    """
    timetable = true_timetable(view, now)
    at = timetable.next_after(now)
    while at is not None:
        span = next((each for each in view.served if each.since <= at <= each.until), None)
        if span is None and at not in taken:
            return at
        at = timetable.next_after(at if span is None else span.until)
    return None


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """A time during which services ran, by the clock of then."""

    since: datetime
    until: datetime
    number: int = 0  #: in the order of events
    newest: int = 0  #: the id of the newest manifest at its end

    def is_new_to(self, view: DispatchView) -> bool:
        """Return whether the manifest was there, and its cursor was not set back since."""
        return view.id <= self.newest and self.number > view.served_through


def without(span: Span, gap: Span) -> tuple[Span, ...]:
    """Cut a gap out of a span."""
    before = Span(span.since, min(span.until, gap.since - _MOMENT))
    after = Span(max(span.since, gap.until + _MOMENT), span.until)
    return tuple(each for each in (before, after) if each.since <= each.until)


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join spans that overlap, in order; a span that ends before it begins is left out."""
    found: list[Span] = []
    for each in sorted((span for span in spans if span.since <= span.until), key=attrgetter("since")):
        if found and each.since <= found[-1].until:
            found[-1] = Span(found[-1].since, max(found[-1].until, each.until))
        else:
            found.append(each)
    return tuple(found)


def has_run(view: DispatchView, at: datetime) -> bool:
    """Return whether an instant of the schedule was decided under a clock ahead."""
    if not any(each.since <= at <= each.until for each in view.served):
        return False
    return true_timetable(view, at - _MOMENT).last_between(at, at) is not None


def true_timetable(view: DispatchView, now: datetime) -> Timetable:
    """Return the timetable from now on; an interval stays in phase with its cursor."""
    schedule, cursor = view.schedule, view.next_scheduled_run
    if isinstance(schedule, Interval):
        beat = cursor or now
        return IntervalTimetable(
            schedule.every, beat - max((beat - now) // schedule.every, 0) * schedule.every
        )
    if isinstance(schedule, Cron):
        return timetable_of(schedule, now)
    raise AssertionError("only a recurring schedule has a timetable")
