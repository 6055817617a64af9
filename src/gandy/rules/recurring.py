"""Cron and interval manifests: every instant that has come gets its verdict."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gandy.model.manifest import Decision, DispatchView
from gandy.model.schedule import MisfirePolicy, SkipReason
from gandy.rules.calendar.series import Plan, series_between, without_first
from gandy.rules.calendar.timetable import WithInstant, timetable_of
from gandy.rules.guards import guard_of
from gandy.rules.impossible import FAR
from gandy.rules.misfire import Judged, judge_in_time, judge_late
from gandy.rules.verdicts import Ledger, deferred, idle, scheduled

if TYPE_CHECKING:
    from typing import Final

    from gandy.model.schedule import Cron, Interval
    from gandy.rules.calendar.series import Series

_MOMENT: Final = timedelta(microseconds=1)


def determine_recurring(view: DispatchView, schedule: Cron | Interval, now: datetime) -> Decision:
    """Settle every instant up to `now`; at most one of them is queued."""
    if guard_of(view) is SkipReason.DEAD_LETTER:
        return deferred(view, SkipReason.DEAD_LETTER)  # until a person has resolved the letter
    cursor = view.next_scheduled_run
    if cursor is None or cursor > now:
        return idle(view, next_look_at=cursor)
    timetable = timetable_of(schedule, cursor)
    if view.is_next_set:
        timetable = WithInstant(timetable, cursor)
    plan = Plan(timetable, view.exclusions, schedule.timezone)
    judged = _judge(view, plan, cursor=cursor, now=now)
    if view.misfire_policy is MisfirePolicy.CATCH_UP:
        return _one_at_a_time(view, plan, judged, now=now)
    return _at_once(view, plan, judged, now=now)


def settle_letter(
    view: DispatchView, schedule: Cron | Interval, *, since: datetime, now: datetime
) -> Decision:
    """Settle every instant that came while a dead letter waited, from `since` until it is resolved `now`."""
    cursor = view.next_scheduled_run
    if cursor is None or cursor >= now:
        return idle(view, next_look_at=cursor if view.may_run else None)
    plan = Plan(timetable_of(schedule, cursor), view.exclusions, schedule.timezone)
    ledger, until = Ledger(view), now - _MOMENT
    judged = _judge_before_letter(view, plan, cursor=cursor, until=min(since - _MOMENT, until))
    judged += _judge_whole(plan, max(cursor, since), until, reason=SkipReason.DEAD_LETTER)
    for each in judged:
        ledger.skip(each.series, each.reason or SkipReason.DEAD_LETTER)
    following = plan.timetable.next_after(until)
    look = following if view.may_run else None
    return Decision(view.id, following, next_look_at=look, skipped=tuple(ledger.skipped))


def _judge_before_letter(
    view: DispatchView, plan: Plan, *, cursor: datetime, until: datetime
) -> list[Judged]:
    """Judge what was due before the letter was written, and had not been looked at."""
    if cursor > until:
        return []
    if not view.may_run:
        return _judge_whole(plan, cursor, until, reason=SkipReason.DISABLED)
    return _judge(view, plan, cursor=cursor, now=until)


def _judge(view: DispatchView, plan: Plan, *, cursor: datetime, now: datetime) -> list[Judged]:
    judged: list[Judged] = []
    since = cursor
    # one that is that far off was enabled under a clock that was wrong
    if view.enabled_at is not None and cursor < view.enabled_at <= now + FAR:
        since = view.enabled_at
        judged = _judge_whole(plan, cursor, min(since - _MOMENT, now), reason=SkipReason.DISABLED)
    late_before = _seen_at(view, cursor, now) - view.misfire_threshold
    if since < late_before:
        late = series_between(plan, since, late_before - _MOMENT)
        judged += judge_late(plan, late, view.misfire_policy)
        since = late_before
    return judged + judge_in_time(series_between(plan, since, now))


def _judge_whole(plan: Plan, since: datetime, until: datetime, *, reason: SkipReason) -> list[Judged]:
    """Give one row to all that came while the manifest stood still, excluded or not."""
    everything = Plan(plan.timetable, (), plan.timezone)
    return [Judged(series, reason) for series in series_between(everything, since, until)]


def _seen_at(view: DispatchView, cursor: datetime, now: datetime) -> datetime:
    """Return the instant that lateness is measured at: waiting for a place in a later cycle is not late."""
    since = view.deferred_since
    return since if since is not None and cursor <= since <= now else now


def _at_once(view: DispatchView, plan: Plan, judged: list[Judged], *, now: datetime) -> Decision:
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
        view.id,
        following,
        next_look_at=following,
        occurrence=ledger.occurrence,
        skipped=tuple(ledger.skipped),
    )


def _one_at_a_time(view: DispatchView, plan: Plan, judged: list[Judged], *, now: datetime) -> Decision:
    """Catch up: what is not queued now waits for the end of what is."""
    ledger = Ledger(view)
    for each in judged:
        if each.reason is None:
            return _next_in_line(view, plan, ledger, due_at=each.series.first, now=now)
        ledger.skip(each.series, each.reason)
    following = plan.timetable.next_after(now)
    return Decision(view.id, following, next_look_at=following, skipped=tuple(ledger.skipped))


def _next_in_line(
    view: DispatchView, plan: Plan, ledger: Ledger, *, due_at: datetime, now: datetime
) -> Decision:
    rows = tuple(ledger.skipped)
    guard = guard_of(view)
    if guard is not None:
        return Decision(view.id, due_at, skipped=rows, deferred_by=guard)
    following = plan.timetable.next_after(due_at)
    is_last = following is None or following > now
    return Decision(
        view.id,
        following,
        next_look_at=following if is_last else None,
        occurrence=scheduled(view, due_at, next_due_at=following),
        skipped=rows,
        deferred_by=None if is_last else SkipReason.ALREADY_QUEUED,
    )
