from __future__ import annotations

from datetime import time, timedelta

import pytest

from gandy.model.exclusion import TimeWindow
from gandy.model.manifest import Decision
from gandy.model.schedule import Cron, MisfirePolicy, Schedule, SkipReason
from gandy.rules.deciding import determine
from tests.unit.rules.views import (
    EVERY_MINUTE,
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
def test_an_instant_exactly_at_the_threshold_is_in_time(schedule: Schedule) -> None:
    decision = determine(
        view_of(schedule, misfire_policy=MisfirePolicy.DO_NOTHING), NOON + timedelta(seconds=60)
    )

    assert queued_minute(decision) == 0


@recurring
def test_fire_once_now_makes_one_run_that_carries_the_latest_missed_instant(schedule: Schedule) -> None:
    decision = determine(view_of(schedule), NOON + minutes(10.5))

    assert queued_minute(decision) == 9
    assert rows(decision) == [(0, 8, 9, SkipReason.MISFIRED), (10, 10, 1, SkipReason.ALREADY_QUEUED)]


@recurring
def test_do_nothing_waits_for_the_next_instant(schedule: Schedule) -> None:
    view = view_of(schedule, misfire_policy=MisfirePolicy.DO_NOTHING, misfire_threshold=timedelta(seconds=20))
    decision = determine(view, NOON + minutes(10.5))

    assert decision.occurrence is None
    assert rows(decision) == [(0, 10, 11, SkipReason.MISFIRED)]
    assert decision.next_scheduled_run == NOON + minutes(11)


@recurring
def test_do_nothing_still_runs_what_is_in_time(schedule: Schedule) -> None:
    decision = determine(view_of(schedule, misfire_policy=MisfirePolicy.DO_NOTHING), NOON + minutes(10.5))

    assert rows(decision) == [(0, 9, 10, SkipReason.MISFIRED)]
    assert queued_minute(decision) == 10


@recurring
def test_catch_up_takes_the_oldest_missed_and_lets_the_others_wait_for_its_end(schedule: Schedule) -> None:
    view = view_of(schedule, misfire_policy=MisfirePolicy.CATCH_UP)
    decision = determine(view, NOON + minutes(10.5))

    assert queued_minute(decision) == 0
    assert decision.skipped == ()
    assert decision.next_scheduled_run == NOON + minutes(1)
    assert decision.next_look_at is None
    assert decision.deferred_by is SkipReason.ALREADY_QUEUED


@recurring
def test_catch_up_keeps_a_hundred_after_two_weeks_off(schedule: Schedule) -> None:
    two_weeks = 14 * 24 * 60
    view = view_of(schedule, misfire_policy=MisfirePolicy.CATCH_UP)
    decision = determine(view, NOON + minutes(two_weeks + 0.5))

    assert rows(decision) == [(0, two_weeks - 101, two_weeks - 100, SkipReason.MISFIRED)]
    assert queued_minute(decision) == two_weeks - 100


@recurring
@pytest.mark.parametrize(("guard", "reason"), PASSING_GUARDS)
def test_catch_up_only_defers_while_its_own_work_waits_or_runs(
    schedule: Schedule, guard: Changes, reason: SkipReason
) -> None:
    view = view_of(schedule, **guard)._replace(misfire_policy=MisfirePolicy.CATCH_UP)
    decision = determine(view, NOON + minutes(5))

    assert decision == Decision(NOON, deferred_by=reason)


def test_catch_up_counts_excluded_instants_neither_as_kept_nor_as_missed() -> None:
    view = view_of(
        EVERY_MINUTE,
        misfire_policy=MisfirePolicy.CATCH_UP,
        exclusions=(TimeWindow(time(12, 1), time(13)),),
    )
    decision = determine(view, NOON + minutes(160.5))

    assert rows(decision) == [(0, 0, 1, SkipReason.MISFIRED), (1, 59, 59, SkipReason.EXCLUDED)]
    assert queued_minute(decision) == 60


def test_the_latest_missed_instant_is_found_behind_a_long_exclusion() -> None:
    secondly = view_of(Cron("* * * * * *"), exclusions=(TimeWindow(time(12, 10), time(20)),))
    decision = determine(secondly, NOON + timedelta(hours=7))

    assert decision.occurrence is not None
    assert decision.occurrence.due_at == NOON + timedelta(minutes=9, seconds=59)
    assert [(row.occurrences, row.reason) for row in decision.skipped] == [
        (599, SkipReason.MISFIRED),
        (24_601, SkipReason.EXCLUDED),
    ]


def test_a_missed_year_of_seconds_is_counted_to_the_second() -> None:
    decision = determine(view_of(Cron("* * * * * *", "Europe/Berlin")), NOON + timedelta(days=365))

    assert sum(row.occurrences for row in decision.skipped) == 365 * 86_400
    assert decision.occurrence is not None
    assert decision.occurrence.due_at == NOON + timedelta(days=365) - timedelta(seconds=61)


def test_years_with_exclusions_stay_a_bounded_number_of_rows() -> None:
    view = view_of(Cron("* * * * *", "Europe/Berlin"), exclusions=(TimeWindow(time(22), time(6)),))
    decision = determine(view, NOON + timedelta(days=2000))

    assert len(decision.skipped) <= 70
    assert sum(row.occurrences for row in decision.skipped) == 2000 * 1440
    assert decision.skipped[0].reason is SkipReason.MISFIRED


@recurring
@pytest.mark.parametrize("policy", MisfirePolicy)
def test_waiting_for_a_place_in_a_later_cycle_is_no_misfire(
    schedule: Schedule, policy: MisfirePolicy
) -> None:
    waiting = view_of(schedule, misfire_policy=policy, deferred_since=NOON + SECOND)
    decision = determine(waiting, NOON + minutes(30))

    assert queued_minute(decision) == 0
    assert all(row.reason is SkipReason.ALREADY_QUEUED for row in decision.skipped)


def test_a_deferral_of_an_earlier_instant_excuses_no_later_one() -> None:
    view = view_of(EVERY_MINUTE, misfire_policy=MisfirePolicy.DO_NOTHING, deferred_since=NOON - minutes(1))

    assert rows(determine(view, NOON + minutes(2)))[0] == (0, 0, 1, SkipReason.MISFIRED)
