"""What went wrong in other schedulers, and must not here."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gandy.errors import CronExpressionError, IntervalError
from gandy.model.schedule import Cron, Dependent, MisfirePolicy, Once, Schedule, SkipReason
from gandy.rules.deciding import determine
from gandy.rules.ending import is_exhausted
from gandy.rules.schedules import changed_cursor, cron, every, first_cursor
from tests.unit.rules.views import EVERY_MINUTE, NOON, minutes, queued_minute, recurring, view_of

FIVE_SECONDS = timedelta(seconds=5)


def test_a_new_cron_waits_for_its_first_occurrence_instead_of_firing_at_deploy() -> None:
    nightly = Cron("0 3 * * *")
    view = view_of(nightly, next_scheduled_run=first_cursor(nightly, NOON))

    assert not determine(view, NOON).has_verdict
    assert determine(view, NOON).next_look_at == NOON + timedelta(hours=15)


def test_a_success_in_between_keeps_a_long_lived_job_out_of_the_dead_letters() -> None:
    failures_since_last_success = 1

    assert not is_exhausted(failures_since_last_success, 3)
    assert is_exhausted(3, 3)


@pytest.mark.parametrize("max_retries", [0, 1])
def test_max_retries_0_parks_after_the_first_failed_run_and_not_before_it(max_retries: int) -> None:
    assert not is_exhausted(0, max_retries)
    assert is_exhausted(1, max_retries)


@recurring
def test_an_old_failure_does_not_delay_a_healthy_occurrence(schedule: Schedule) -> None:
    decision = determine(view_of(schedule, failed_count=2), NOON)

    assert decision.occurrence is not None
    assert decision.occurrence.scheduled_at == NOON


@recurring
def test_a_cancelled_or_timed_out_run_is_not_due_again_five_seconds_later(schedule: Schedule) -> None:
    view = view_of(schedule)
    decision = determine(view, NOON)
    afterwards = view._replace(next_scheduled_run=decision.next_scheduled_run)

    assert queued_minute(decision) == 0
    assert not determine(afterwards, NOON + FIVE_SECONDS).has_verdict


def test_a_cancelled_once_is_not_due_again() -> None:
    decision = determine(view_of(Once(at=NOON)), NOON)
    afterwards = view_of(Once(at=NOON), next_scheduled_run=decision.next_scheduled_run)

    assert not determine(afterwards, NOON + FIVE_SECONDS).has_verdict


def test_an_end_of_a_parent_that_came_while_the_dependent_ran_is_followed_afterwards() -> None:
    running = view_of(
        Dependent("parent"), next_scheduled_run=None, parents_ended=True, has_active_execution=True
    )

    assert determine(running, NOON).deferred_by is SkipReason.ACTIVE
    assert determine(running._replace(has_active_execution=False), NOON).occurrence is not None


def test_a_once_scheduled_again_under_its_id_fires_again() -> None:
    again = Once(at=NOON + minutes(10))
    cursor = changed_cursor(Once(at=NOON), again, cursor=None, now=NOON + minutes(5))
    view = view_of(again, next_scheduled_run=cursor, completed_at=NOON)

    assert queued_minute(determine(view, NOON + minutes(10))) == 10


def test_an_interval_of_zero_a_missing_cron_and_an_impossible_date_are_refused_not_looped_over() -> None:
    with pytest.raises(IntervalError):
        every(seconds=0)
    for expression in (None, "0 0 31 2 *"):
        with pytest.raises(CronExpressionError):
            cron(expression)  # type: ignore[arg-type]  # a null from a table or a form


@recurring
def test_catch_up_after_two_weeks_off_does_not_flood(schedule: Schedule) -> None:
    view = view_of(schedule, misfire_policy=MisfirePolicy.CATCH_UP)
    now, runs = NOON + timedelta(days=14), 0
    decision = determine(view, now)
    while decision.occurrence is not None:
        runs += 1
        view = view._replace(next_scheduled_run=decision.next_scheduled_run)
        decision = determine(view, now)

    # A hundred missed ones, and the two that are not later than a minute.
    assert runs == 102


def test_a_failure_reaped_in_this_cycle_holds_the_next_occurrence_back_in_this_cycle() -> None:
    decision = determine(view_of(EVERY_MINUTE, is_dead_lettered_now=True), NOON)

    assert decision.occurrence is None
    assert decision.deferred_by is SkipReason.DEAD_LETTER
