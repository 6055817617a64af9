"""Decide about the due instants of a cron or an interval."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, assert_never

from gandy.errors import ScheduleError
from gandy.model.manifest import Decision, DispatchView, Occurrence, Skipped
from gandy.model.schedule import Interval, MisfirePolicy, Origin, Recurring, SkipReason, Span
from gandy.rules.clocks import FAR, joined, true_timetable, without
from gandy.rules.dispatching import entry_priority
from gandy.rules.timetable import (
    InstantPlan,
    Series,
    WithInstant,
    scheduled_at,
    series_between,
    split_before_last,
    timetable_of,
    without_first,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from gandy.model.exclusion import Exclusion
    from gandy.model.schedule import Schedule
    from gandy.rules.clocks import ServiceTime
    from gandy.rules.timetable import Timetable


def guard_of(view: DispatchView) -> SkipReason | None:
    """Return the guard that holds; a waiting retry counts as a queued entry and keeps its delay."""
    if view.is_dead_lettered_now or view.has_awaiting_dead_letter:
        return SkipReason.DEAD_LETTER
    if view.has_queued_work:
        return SkipReason.ALREADY_QUEUED
    return SkipReason.ACTIVE if view.has_active_execution else None


#: The number of missed occurrences that catch_up queues; older ones are misfired.
MOST_CAUGHT_UP: Final = 100


@dataclass(frozen=True, slots=True)
class Judged:
    """Instants and the reason to skip them; without a reason they may run if no guard holds."""

    series: Series
    reason: SkipReason | None


def judge_in_time(series: Iterable[Series]) -> list[Judged]:
    """Judge instants that are not late: only an exclusion skips them."""
    return [_judged(each, None) for each in series]


def judge_late(plan: InstantPlan, series: list[Series], policy: MisfirePolicy) -> list[Judged]:
    """Judge instants that are later than the threshold, by the manifest's policy."""
    match policy:
        case MisfirePolicy.DO_NOTHING:
            return [_judged(each, SkipReason.MISFIRED) for each in series]
        case MisfirePolicy.FIRE_ONCE_NOW:
            return _keep_last(plan, series, 1)
        case MisfirePolicy.CATCH_UP:
            return _keep_last(plan, series, MOST_CAUGHT_UP)
        case _:
            assert_never(policy)


def _keep_last(plan: InstantPlan, series: list[Series], keep: int) -> list[Judged]:
    judged: list[Judged] = []
    for each in reversed(series):
        if keep == 0 or each.is_excluded or each.is_too_old:
            judged.append(_judged(each, SkipReason.MISFIRED))
            continue
        missed, kept = split_before_last(plan, each, keep)
        keep -= min(keep, each.count)
        judged.extend(
            Judged(part, reason)
            for part, reason in ((kept, None), (missed, SkipReason.MISFIRED))
            if part is not None
        )
    judged.reverse()
    return judged


def _judged(series: Series, reason: SkipReason | None) -> Judged:
    if series.is_excluded:
        return Judged(series, SkipReason.EXCLUDED)
    return Judged(series, SkipReason.MISFIRED if series.is_too_old else reason)


_MOMENT: Final = timedelta(microseconds=1)


#: Times of service are known by the minute.
_GRAIN: Final = timedelta(minutes=1)
#: The spans that a manifest keeps, the latest ones.
_MOST_SPANS: Final = 64


def with_served(
    view: DispatchView, services: Sequence[ServiceTime], *, withdrawn: Iterable[Span] = ()
) -> DispatchView:
    """Add the instants before the cursor that were decided while services ran, under whichever clock.

    The cursor is to be set back. Of what a jump forward passed over, the instants within the misfire
    threshold ran, and those of the late ones that the policy runs. All others, and the withdrawn ones, run
    when they come.
    """
    cursor = view.next_scheduled_run
    if cursor is None or view.is_next_set or not isinstance(view.schedule, Recurring):
        return view
    for before, each in pairwise((None, *services[:-1])):
        if each is not None and each.is_new_to(view):
            first = _first_run(view, before, each)
            if view.served_from is not None:  # an earlier instant had its verdict before that
                first = max(first, view.served_from)
            ran = Span(first, min(each.until + _GRAIN, cursor - _MOMENT))
            view = view._replace(served=joined((*view.served, ran)))
    spans = view.served
    for gap in withdrawn:
        spans = tuple(part for span in spans for part in without(span, gap))
    return view._replace(served=spans[-_MOST_SPANS:], served_through=services[-1].number - 1)


def _first_run(view: DispatchView, before: ServiceTime | None, service: ServiceTime) -> datetime:
    """Return the first instant that a service decided: some came due before, and ran late."""
    is_new = before is None or before.newest < view.id
    if is_new and view.created_at is not None and service.since <= view.created_at <= service.until:
        return view.created_at
    if before is None or before.until >= service.since:
        return service.since
    plan = InstantPlan(true_timetable(view, before.until), view.exclusions, view.timezone)
    since = max(service.since - _GRAIN - view.misfire_threshold, before.until)
    late = _not_served(view, plan, since=before.until, until=since - _MOMENT)
    judged = judge_late(plan, late, view.misfire_policy)
    return min((each.series.first for each in judged if each.reason is None), default=since)


def idle(view: DispatchView, *, next_look_at: datetime | None = None) -> Decision:
    """Return a decision that changes only the next look."""
    return Decision(view.next_scheduled_run, next_look_at)


def deferred(view: DispatchView, guard: SkipReason) -> Decision:
    """Defer the due instants until the guard lifts."""
    return Decision(view.next_scheduled_run, deferred_by=guard)


def scheduled(view: DispatchView, due_at: datetime, *, next_due_at: datetime | None = None) -> Occurrence:
    """Make the entry of a scheduled instant, its jitter included."""
    start = scheduled_at(view.external_id, due_at, view.variance, next_due_at=next_due_at)
    return Occurrence(due_at, start, Origin.SCHEDULE, entry_priority(view.priority, view.group_priority))


def as_error(decision: Decision) -> Decision:
    """Turn an entry that could not be queued into an error verdict, so that the cursor still advances."""
    failed = decision.occurrence
    if failed is None:
        return decision
    row = Skipped(failed.due_at, failed.due_at, 1, SkipReason.ERROR)
    return replace(decision, occurrence=None, skipped=(*decision.skipped, row))


@dataclass(slots=True)
class Ledger:
    """The verdicts of one manifest in one cycle, in the order of their instants."""

    view: DispatchView
    occurrence: Occurrence | None = None
    skipped: list[Skipped] = field(default_factory=list)
    _rows_before_entry: int = 0

    def queue(self, occurrence: Occurrence) -> None:
        """Record the one entry."""
        self.occurrence = occurrence
        self._rows_before_entry = len(self.skipped)

    def skip(self, series: Series, reason: SkipReason) -> None:
        """Record skipped instants; extend the previous row if the reason is the same."""
        last = self.skipped[-1] if len(self.skipped) > self._rows_before_entry else None
        if last is not None and last.reason is reason:
            count = last.occurrences + series.count
            self.skipped[-1] = replace(last, due_until=series.last, occurrences=count)
            return
        extends = series.first == self.view.next_scheduled_run and reason is self.view.last_skip
        self.skipped.append(Skipped(series.first, series.last, series.count, reason, extends))


def determine_recurring(view: DispatchView, schedule: Recurring, now: datetime) -> Decision:
    """Settle every instant up to `now`; at most one of them is queued."""
    if guard_of(view) is SkipReason.DEAD_LETTER:
        return deferred(view, SkipReason.DEAD_LETTER)  # until an operator has resolved the letter
    cursor = view.next_scheduled_run
    if cursor is None or cursor > now:
        return idle(view, next_look_at=cursor)
    timetable = timetable_of(schedule, cursor)
    if view.is_next_set:
        timetable = WithInstant(timetable, cursor)
    plan = InstantPlan(timetable, view.exclusions, schedule.timezone)
    judged = _judge(view, plan, cursor=cursor, now=now)
    if view.misfire_policy is MisfirePolicy.CATCH_UP:
        return _one_at_a_time(view, plan, judged, now=now)
    return _at_once(view, plan, judged, now=now)


def settle_letter(view: DispatchView, schedule: Recurring, *, since: datetime, now: datetime) -> Decision:
    """Settle every instant that came while a dead letter waited, from `since` until it is resolved `now`."""
    cursor = view.next_scheduled_run
    if cursor is None or cursor >= now:
        return idle(view, next_look_at=cursor if view.may_run else None)
    plan = InstantPlan(timetable_of(schedule, cursor), view.exclusions, schedule.timezone)
    ledger, until = Ledger(view), now - _MOMENT
    judged = _judge_before_letter(view, plan, cursor=cursor, until=min(since - _MOMENT, until))
    judged += _judge_whole(plan, max(cursor, since), until, reason=SkipReason.DEAD_LETTER)
    for each in judged:
        ledger.skip(each.series, each.reason or SkipReason.DEAD_LETTER)
    following = plan.timetable.next_after(until)
    look = following if view.may_run else None
    return Decision(following, next_look_at=look, skipped=tuple(ledger.skipped))


def _judge_before_letter(
    view: DispatchView, plan: InstantPlan, *, cursor: datetime, until: datetime
) -> list[Judged]:
    """Judge the instants that were due before the letter was written and had no verdict."""
    if cursor > until:
        return []
    if not view.may_run:
        return _judge_whole(plan, cursor, until, reason=SkipReason.DISABLED)
    return _judge(view, plan, cursor=cursor, now=until)


def _judge(view: DispatchView, plan: InstantPlan, *, cursor: datetime, now: datetime) -> list[Judged]:
    judged: list[Judged] = []
    since = cursor
    # an `enabled_at` further ahead was set by a wrong clock
    if view.enabled_at is not None and cursor < view.enabled_at <= now + FAR:
        since = view.enabled_at
        judged = _judge_whole(plan, cursor, min(since - _MOMENT, now), reason=SkipReason.DISABLED)
    judged += _judge_served(view, plan, since=since, now=now)
    late_before = _seen_at(view, cursor, now) - view.misfire_threshold
    if since < late_before:
        late = _not_served(view, plan, since=since, until=late_before - _MOMENT)
        judged += judge_late(plan, late, view.misfire_policy)
        since = late_before
    judged += judge_in_time(_not_served(view, plan, since=since, until=now))
    return sorted(judged, key=lambda each: each.series.first) if view.served else judged


def _judge_served(view: DispatchView, plan: InstantPlan, *, since: datetime, now: datetime) -> list[Judged]:
    """Skip the instants that were decided under a clock ahead."""
    return [
        _judged(series, SkipReason.CLOCK)
        for each in view.served
        for series in series_between(plan, max(since, each.since), min(now, each.until))
    ]


def _not_served(view: DispatchView, plan: InstantPlan, *, since: datetime, until: datetime) -> list[Series]:
    """Return the instants of a span without those that were decided under a clock ahead."""
    found: list[Series] = []
    for each in view.served:
        found += series_between(plan, since, min(until, each.since - _MOMENT))
        since = max(since, each.until + _MOMENT)
    return found + series_between(plan, since, until)


def _judge_whole(plan: InstantPlan, since: datetime, until: datetime, *, reason: SkipReason) -> list[Judged]:
    """Give the same reason to all instants while the manifest was stopped, excluded or not."""
    everything = InstantPlan(plan.timetable, (), plan.timezone)
    return [Judged(series, reason) for series in series_between(everything, since, until)]


def _seen_at(view: DispatchView, cursor: datetime, now: datetime) -> datetime:
    """Return the instant at which lateness is measured: a deferral by the limit of a cycle is not late."""
    since = view.deferred_since
    return since if since is not None and cursor <= since <= now else now


def _at_once(view: DispatchView, plan: InstantPlan, judged: list[Judged], *, now: datetime) -> Decision:
    ledger, guard = Ledger(view), guard_of(view)
    for each in judged:
        reason = each.reason or guard
        rest: Series | None = each.series
        if reason is None and ledger.occurrence is None:
            first = each.series.first
            ledger.queue(scheduled(view, first, next_due_at=plan.timetable.next_after(first)))
            rest = without_first(plan, each.series)
        if rest is not None:
            ledger.skip(rest, reason or SkipReason.ALREADY_QUEUED)
    following = plan.timetable.next_after(now)
    return Decision(
        following,
        next_look_at=following,
        occurrence=ledger.occurrence,
        skipped=tuple(ledger.skipped),
    )


def _one_at_a_time(view: DispatchView, plan: InstantPlan, judged: list[Judged], *, now: datetime) -> Decision:
    """Queue the first instant; the others wait until its run has ended (catch_up)."""
    ledger = Ledger(view)
    for each in judged:
        if each.reason is None:
            return _next_in_line(view, plan, ledger, due_at=each.series.first, now=now)
        ledger.skip(each.series, each.reason)
    following = plan.timetable.next_after(now)
    return Decision(following, next_look_at=following, skipped=tuple(ledger.skipped))


def _next_in_line(
    view: DispatchView, plan: InstantPlan, ledger: Ledger, *, due_at: datetime, now: datetime
) -> Decision:
    rows = tuple(ledger.skipped)
    guard = guard_of(view)
    if guard is not None:
        return Decision(due_at, skipped=rows, deferred_by=guard)
    following = plan.timetable.next_after(due_at)
    is_last = following is None or following > now
    return Decision(
        following,
        next_look_at=following if is_last else None,
        occurrence=scheduled(view, due_at, next_due_at=following),
        skipped=rows,
        deferred_by=None if is_last else SkipReason.ALREADY_QUEUED,
    )


class Rhythm(NamedTuple):
    """The schedule of a failing manifest, and since when it fails."""

    schedule: Schedule
    exclusions: tuple[Exclusion, ...]
    cursor: datetime | None  #: the next instant without a verdict
    now: datetime
    failing_since: datetime  #: the first failure after the last success
    is_own_input: bool = True  #: the failed run had the input that the coming instants have
    is_on: bool = True  #: the coming instants run: manifest and group are enabled, and it is declared

    @property
    def failing_for(self) -> timedelta:
        """The time since the first of these failures."""
        return self.now - self.failing_since


def is_denser(rhythm: Rhythm, delay: timedelta) -> bool:
    """Return whether the two instants around now that are not excluded are less than the delay apart."""
    schedule, cursor = rhythm.schedule, rhythm.cursor
    if cursor is None or not isinstance(schedule, Recurring):
        return False
    if isinstance(schedule, Interval) and not rhythm.exclusions:
        return schedule.every < delay
    try:
        return _gap(rhythm, schedule, cursor, within=delay) < delay
    except (ScheduleError, OverflowError):  # unreadable, or at the end of the calendar: rely on a retry
        return False


def _gap(rhythm: Rhythm, schedule: Recurring, cursor: datetime, *, within: timedelta) -> timedelta:
    """Measure the gap between the instants around now, at most `within`."""
    at = min(rhythm.now, cursor - _MOMENT)  # a due instant without a verdict counts as future
    plan = InstantPlan(_timetable(schedule, cursor, within), rhythm.exclusions, schedule.timezone)
    before = [each.last for each in series_between(plan, at - within, at) if not each.is_excluded]
    after = [each.first for each in series_between(plan, at + _MOMENT, at + within) if not each.is_excluded]
    return after[0] - before[-1] if before and after else within


def _timetable(schedule: Recurring, cursor: datetime, delay: timedelta) -> Timetable:
    """Return a timetable on both sides of the cursor: a rate has no instants before its anchor."""
    if isinstance(schedule, Interval):
        cursor -= schedule.every * (delay // schedule.every + 1)
    return timetable_of(schedule, cursor)
