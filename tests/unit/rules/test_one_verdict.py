"""Every instant gets one verdict, the one that a step-by-step reading of the rules gives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.model.exclusion import Days, Exclusion, TimeWindow
from gandy.model.schedule import Cron, Interval, MisfirePolicy, SkipReason
from gandy.rules.deciding import determine
from gandy.rules.exclusions import is_excluded
from gandy.rules.recurring import settle_letter
from gandy.rules.timetable import timetable_of
from tests.unit.rules.views import NOON, view_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.model.manifest import Decision, DispatchView

MOMENT = timedelta(microseconds=1)
LATER = NOON + timedelta(days=3)
Verdicts = dict[datetime, SkipReason | None]  #: None: queued

times = st.integers(0, 86_399).map(lambda second: time(second // 3600, second // 60 % 60, second % 60))
windows = st.tuples(times, times).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: TimeWindow(*pair))
weekdays = st.sets(st.sampled_from(["mon", "tue", "wed", "thu"]), min_size=1).map(lambda days: Days.on(*days))
SCHEDULES: list[Cron | Interval] = [
    Interval(timedelta(seconds=100)),
    Interval(timedelta(minutes=7, microseconds=3), "Asia/Kathmandu"),
    Interval(timedelta(hours=5)),
    Cron("*/2 * * * *"),
    Cron("*/20 9-17 * * *", "America/New_York"),
    Cron("*/25 */10 * * * *", "Europe/Berlin"),
]
spans = st.integers(0, 6 * 3600 * 10**6).map(lambda micro: timedelta(microseconds=micro))


@st.composite
def views(draw: st.DrawFn) -> DispatchView:
    schedule = draw(st.sampled_from(SCHEDULES))
    cursor = timetable_of(schedule, NOON).next_after(NOON)
    exclusions: tuple[Exclusion, ...] = tuple(draw(st.lists(windows | weekdays, max_size=2)))
    is_queued = draw(st.booleans())
    return view_of(
        schedule,
        next_scheduled_run=cursor,
        exclusions=exclusions,
        misfire_policy=draw(st.sampled_from(MisfirePolicy)),
        misfire_threshold=draw(st.sampled_from([timedelta(0), timedelta(minutes=1), timedelta(hours=1)])),
        enabled_at=draw(st.none() | spans.map(lambda span: NOON + span)),
        deferred_since=draw(st.none() | spans.map(lambda span: NOON + span)),
        has_awaiting_dead_letter=draw(st.sampled_from([False, False, True])),
        has_queued_work=is_queued,
        has_active_execution=draw(st.booleans()),
    )


def recurring(view: DispatchView) -> Cron | Interval:
    assert isinstance(view.schedule, Cron | Interval)
    return view.schedule


def due_instants(view: DispatchView, now: datetime) -> Iterator[datetime]:
    assert view.next_scheduled_run is not None
    table = timetable_of(recurring(view), view.next_scheduled_run)
    at: datetime | None = view.next_scheduled_run
    while at is not None and at <= now:
        yield at
        at = table.next_after(at)


@dataclass
class Reading:
    """The rules read aloud, one instant after the other."""

    view: DispatchView
    now: datetime
    verdicts: Verdicts = field(default_factory=dict)

    def guard(self) -> SkipReason | None:
        if self.view.has_awaiting_dead_letter:
            return SkipReason.DEAD_LETTER
        if self.view.has_queued_work:
            return SkipReason.ALREADY_QUEUED
        return SkipReason.ACTIVE if self.view.has_active_execution else None

    def is_late(self, at: datetime) -> bool:
        seen, since = self.now, self.view.deferred_since
        cursor = self.view.next_scheduled_run
        if since is not None and cursor is not None and cursor <= since <= self.now:
            seen = since
        return seen - at > self.view.misfire_threshold

    def plain_reason(self, at: datetime) -> SkipReason | None:
        enabled = self.view.enabled_at
        if enabled is not None and at < enabled <= self.now + timedelta(hours=1):  # later ones: a wrong clock
            return SkipReason.DISABLED
        if is_excluded(self.view.exclusions, at, self.view.timezone):
            return SkipReason.EXCLUDED
        return None

    def read(self) -> Verdicts:
        instants = list(due_instants(self.view, self.now))
        late = [at for at in instants if self.plain_reason(at) is None and self.is_late(at)]
        keep = {MisfirePolicy.DO_NOTHING: 0, MisfirePolicy.FIRE_ONCE_NOW: 1, MisfirePolicy.CATCH_UP: 100}
        misfired = set(late[: max(len(late) - keep[self.view.misfire_policy], 0)])
        queued = False
        for at in instants:
            reason = self.plain_reason(at) or (SkipReason.MISFIRED if at in misfired else self.guard())
            is_held = self.view.misfire_policy is MisfirePolicy.CATCH_UP and reason is not None
            if is_held and reason in {SkipReason.ACTIVE, SkipReason.ALREADY_QUEUED}:
                return self.verdicts
            if reason is None and queued:
                reason = SkipReason.ALREADY_QUEUED
            self.verdicts[at] = reason
            queued = queued or reason is None
            if queued and self.view.misfire_policy is MisfirePolicy.CATCH_UP:
                return self.verdicts
        return self.verdicts


def test_a_letter_from_the_future_hides_nothing_that_has_come() -> None:
    decision = settle_letter(view_of(SCHEDULES[0]), SCHEDULES[0], since=LATER, now=NOON + timedelta(hours=1))

    assert sum(row.occurrences for row in decision.skipped) == 36
    assert decision.next_scheduled_run == NOON + timedelta(hours=1)


def verdicts_of(view: DispatchView, decision: Decision, now: datetime) -> Verdicts:
    """Spell out the rows of a decision, and check that they hold what they say."""
    verdicts: Verdicts = {}
    instants = list(due_instants(view, now))
    for row in decision.skipped:
        covered = [at for at in instants if row.due_at <= at <= row.due_until]
        assert covered
        assert len(covered) == row.occurrences
        assert covered[0] == row.due_at
        assert covered[-1] == row.due_until
        assert not verdicts.keys() & set(covered)
        verdicts.update(dict.fromkeys(covered, row.reason))
    if decision.occurrence is not None:
        assert decision.occurrence.due_at not in verdicts
        verdicts[decision.occurrence.due_at] = None
    return verdicts


@settings(max_examples=300, deadline=None)
@given(views(), spans)
def test_a_decision_says_of_each_instant_what_the_rules_say(view: DispatchView, span: timedelta) -> None:
    now = NOON + span
    decision = determine(view, now)
    expected = {} if view.has_awaiting_dead_letter else Reading(view, now).read()

    assert verdicts_of(view, decision, now) == expected


@settings(max_examples=300, deadline=None)
@given(views(), spans, spans, st.booleans())
def test_a_resolved_letter_settles_each_instant_by_what_held_it_back(
    view: DispatchView, first: timedelta, second: timedelta, is_enabled: bool
) -> None:
    since, now = NOON + min(first, second), NOON + max(first, second)
    view = view._replace(has_awaiting_dead_letter=True, is_enabled=is_enabled)
    decision = settle_letter(view, recurring(view), since=since, now=now)
    before = Reading(view, since - MOMENT).read()
    expected = {
        at: SkipReason.DEAD_LETTER if at >= since else (before[at] if is_enabled else SkipReason.DISABLED)
        for at in due_instants(view, now - MOMENT)
    }

    assert verdicts_of(view, decision, now - MOMENT) == expected
    assert decision.next_scheduled_run == next(at for at in due_instants(view, LATER) if at >= now)
    assert decision.next_look_at == (decision.next_scheduled_run if is_enabled else None)


@settings(max_examples=300, deadline=None)
@given(views(), st.lists(spans, min_size=1, max_size=6))
def test_cycle_after_cycle_every_instant_gets_exactly_one_verdict(
    view: DispatchView, steps: list[timedelta]
) -> None:
    now, seen = NOON, set[datetime]()
    first_view = view
    for step in steps:
        now += step
        decision = determine(view, now)
        fresh = verdicts_of(view, decision, now)

        assert not seen & fresh.keys()
        seen |= fresh.keys()
        view = view._replace(next_scheduled_run=decision.next_scheduled_run)
        # Once the run has ended, what waited for it goes on.
        view = view._replace(has_queued_work=False, has_active_execution=False)

    decided = [at for at in due_instants(first_view, now) if at < (view.next_scheduled_run or now + MOMENT)]
    assert seen == set(decided)


@settings(max_examples=300, deadline=None)
@given(views(), spans)
def test_no_decision_asks_to_be_looked_at_again_at_once(view: DispatchView, span: timedelta) -> None:
    now = NOON + span
    decision = determine(view, now)

    assert decision.next_look_at is None or decision.next_look_at > now
    assert decision.next_look_at is not None or decision.deferred_by is not None
    assert view.next_scheduled_run is not None
    assert decision.next_scheduled_run is not None
    assert decision.next_scheduled_run >= view.next_scheduled_run
    assert decision.has_verdict == (decision.next_scheduled_run > view.next_scheduled_run)


@settings(max_examples=300, deadline=None)
@given(views(), spans)
def test_neighbouring_rows_differ_in_reason_or_have_the_entry_between_them(
    view: DispatchView, span: timedelta
) -> None:
    decision = determine(view, NOON + span)
    queued_at = None if decision.occurrence is None else decision.occurrence.due_at

    for row, following in zip(decision.skipped, decision.skipped[1:], strict=False):
        is_divided = queued_at is not None and row.due_until < queued_at < following.due_at
        assert row.reason is not following.reason or is_divided
