from __future__ import annotations

from datetime import time, timedelta

import pytest

from gandy.model.exclusion import TimeWindow
from gandy.model.manifest import Decision, Occurrence, Skipped
from gandy.model.schedule import Cron, Interval, MisfirePolicy, Origin, Schedule, SkipReason
from gandy.rules.deciding import determine
from tests.unit.rules.views import (
    EVERY_MINUTE,
    LETTERS,
    NOON,
    PASSING_GUARDS,
    Changes,
    minutes,
    queued_minute,
    recurring,
    rows,
    view_of,
)

SECOND = timedelta(seconds=1)


@recurring
def test_before_its_instant_nothing_happens_and_the_look_is_at_the_instant(schedule: Schedule) -> None:
    assert determine(view_of(schedule), NOON - SECOND) == Decision(NOON, next_look_at=NOON)


@recurring
def test_an_instant_that_has_come_is_queued_and_the_cursor_moves_on(schedule: Schedule) -> None:
    decision = determine(view_of(schedule, group_priority=9), NOON + SECOND)

    assert decision == Decision(
        NOON + minutes(1),
        next_look_at=NOON + minutes(1),
        occurrence=Occurrence(NOON, NOON, Origin.SCHEDULE, priority=9),
    )


def test_the_manifests_own_priority_stands_before_its_groups() -> None:
    decision = determine(view_of(EVERY_MINUTE, priority=4, group_priority=9), NOON)

    assert decision.occurrence is not None
    assert decision.occurrence.priority == 4


def test_a_slow_cycle_does_not_shift_the_following_instants_of_an_interval() -> None:
    decision = determine(view_of(Interval(minutes(5))), NOON + timedelta(seconds=47))

    assert decision.next_scheduled_run == NOON + minutes(5)


@recurring
def test_of_several_instants_in_time_the_first_runs_and_the_rest_find_it_queued(schedule: Schedule) -> None:
    decision = determine(view_of(schedule, misfire_threshold=minutes(10)), NOON + minutes(3))

    assert queued_minute(decision) == 0
    assert rows(decision) == [(1, 3, 3, SkipReason.ALREADY_QUEUED)]


@recurring
@pytest.mark.parametrize(("guard", "reason"), PASSING_GUARDS)
def test_a_guard_settles_the_instant_with_its_reason(
    schedule: Schedule, guard: Changes, reason: SkipReason
) -> None:
    decision = determine(view_of(schedule, **guard), NOON + SECOND)

    assert decision.occurrence is None
    assert rows(decision) == [(0, 0, 1, reason)]
    assert decision.next_scheduled_run == decision.next_look_at == NOON + minutes(1)


@recurring
@pytest.mark.parametrize("policy", MisfirePolicy)
@pytest.mark.parametrize(("guard", "late"), [(guard, late) for guard in LETTERS for late in (-1, 0, 90)])
def test_a_dead_letter_leaves_every_instant_to_its_resolution(
    schedule: Schedule, policy: MisfirePolicy, guard: Changes, late: int
) -> None:
    view = view_of(schedule, **guard)._replace(misfire_policy=policy)

    assert determine(view, NOON + minutes(late)) == Decision(NOON, deferred_by=SkipReason.DEAD_LETTER)


@recurring
def test_a_skip_for_the_reason_of_the_last_verdict_extends_its_row(schedule: Schedule) -> None:
    view = view_of(schedule, has_active_execution=True, last_skip=SkipReason.ACTIVE)

    assert determine(view, NOON).skipped == (Skipped(NOON, NOON, 1, SkipReason.ACTIVE, extends_last=True),)
    assert not determine(view._replace(last_skip=SkipReason.EXCLUDED), NOON).skipped[0].extends_last


@recurring
def test_an_excluded_instant_is_skipped_and_is_no_misfire_however_late(schedule: Schedule) -> None:
    view = view_of(schedule, exclusions=(TimeWindow(time(12), time(12, 2)),))

    assert rows(determine(view, NOON + minutes(1.5))) == [(0, 1, 2, SkipReason.EXCLUDED)]


def test_an_excluded_instant_between_two_others_keeps_its_own_row() -> None:
    view = view_of(
        EVERY_MINUTE, exclusions=(TimeWindow(time(12, 1), time(12, 2)),), misfire_threshold=minutes(9)
    )
    decision = determine(view, NOON + minutes(3))

    assert queued_minute(decision) == 0
    assert rows(decision) == [(1, 1, 1, SkipReason.EXCLUDED), (2, 3, 2, SkipReason.ALREADY_QUEUED)]


def test_rows_on_both_sides_of_the_entry_are_two_rows() -> None:
    edges = (TimeWindow(time(12), time(12, 1)), TimeWindow(time(12, 2), time(12, 3)))
    decision = determine(
        view_of(EVERY_MINUTE, exclusions=edges, misfire_threshold=minutes(9)), NOON + minutes(2)
    )

    assert queued_minute(decision) == 1
    assert rows(decision) == [(0, 0, 1, SkipReason.EXCLUDED), (2, 2, 1, SkipReason.EXCLUDED)]


def test_a_cron_that_never_comes_again_has_no_cursor_any_more() -> None:
    last = NOON.replace(year=9998, month=12, day=31, hour=0)
    decision = determine(view_of(Cron("0 0 * * *"), next_scheduled_run=last), last)

    assert decision.occurrence is not None
    assert decision.next_scheduled_run is None
    assert decision.next_look_at is None
