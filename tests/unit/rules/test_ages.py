from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gandy.model.run import TrainState
from gandy.rules.ending import (
    is_finished_once_removable,
    is_orphan_removable,
    keep_until,
)
from gandy.rules.stale import (
    is_stale_in_progress,
    is_stale_pending,
    is_timed_out,
    stale_in_progress_after,
)
from tests.unit.rules.views import NOON, minutes

MOMENT = timedelta(microseconds=1)


@pytest.mark.parametrize(("timeout", "limit"), [(None, 20), (minutes(90), 90)])
def test_a_run_times_out_after_its_own_timeout_or_twenty_minutes(
    timeout: timedelta | None, limit: int
) -> None:
    assert not is_timed_out(NOON, NOON + minutes(limit), timeout)
    assert is_timed_out(NOON, NOON + minutes(limit) + MOMENT, timeout)


def test_a_pending_run_is_stale_only_when_nobody_can_claim_it() -> None:
    later = NOON + minutes(20) + MOMENT

    assert is_stale_pending(NOON, later, can_be_claimed=False)
    assert not is_stale_pending(NOON, later, can_be_claimed=True)
    assert not is_stale_pending(NOON, NOON + minutes(20), can_be_claimed=False)


@pytest.mark.parametrize(
    ("timeout", "limit"), [(None, 60), (minutes(5), 60), (minutes(20), 60), (minutes(90), 130)]
)
def test_a_run_in_progress_is_given_up_after_an_hour_or_its_timeout_and_forty_minutes(
    timeout: timedelta | None, limit: int
) -> None:
    assert stale_in_progress_after(timeout) == minutes(limit)
    assert not is_stale_in_progress(NOON, NOON + minutes(limit), timeout, lease_until=None)
    assert is_stale_in_progress(NOON, NOON + minutes(limit) + MOMENT, timeout, lease_until=None)


def test_a_lost_lease_ends_a_run_at_once() -> None:
    assert is_stale_in_progress(NOON, NOON + minutes(1), None, lease_until=NOON + minutes(1) - MOMENT)
    assert not is_stale_in_progress(NOON, NOON + minutes(1), None, lease_until=NOON + minutes(1))


@pytest.mark.parametrize(
    ("state", "days"), [(TrainState.COMPLETED, 7), (TrainState.FAILED, 30), (TrainState.CANCELLED, 30)]
)
def test_a_run_is_kept_by_its_state_unless_the_job_says_otherwise(state: TrainState, days: int) -> None:
    assert keep_until(NOON, state) == NOON + timedelta(days=days)
    assert keep_until(NOON, state, keep_for=minutes(3)) == NOON + minutes(3)
    assert keep_until(NOON, state, keep_for=timedelta.max) == datetime.max.replace(tzinfo=UTC)


def test_a_finished_once_goes_after_thirty_days_unless_still_declared() -> None:
    later = NOON + timedelta(days=30) + MOMENT

    assert is_finished_once_removable(NOON, later, is_declared=False)
    assert not is_finished_once_removable(NOON, later, is_declared=True)
    assert not is_finished_once_removable(NOON, NOON + timedelta(days=30), is_declared=False)
    assert not is_finished_once_removable(None, later, is_declared=False)


def test_an_orphan_goes_after_a_day_but_never_under_an_unfinished_run() -> None:
    later = NOON + timedelta(days=1) + MOMENT

    assert is_orphan_removable(NOON, later, has_unfinished_run=False)
    assert not is_orphan_removable(NOON, later, has_unfinished_run=True)
    assert not is_orphan_removable(NOON, NOON + timedelta(days=1), has_unfinished_run=False)
    assert not is_orphan_removable(None, later, has_unfinished_run=False)
