from __future__ import annotations

from datetime import timedelta

import pytest

from gandy.model.schedule import Cron, Dependent, DormantDependent, Interval, Manual, Once, Schedule
from gandy.rules.schedules import changed_cursor, first_cursor
from tests.unit.rules.views import NOON, minutes

HOURLY = Interval(timedelta(hours=1))


def test_a_new_interval_is_due_at_once() -> None:
    assert first_cursor(HOURLY, NOON) == NOON


def test_a_new_once_is_due_at_its_instant_even_if_that_has_passed() -> None:
    assert first_cursor(Once(at=NOON - minutes(9)), NOON) == NOON - minutes(9)
    assert first_cursor(Once(delay=minutes(5)), NOON) == NOON + minutes(5)


@pytest.mark.parametrize("schedule", [Manual(), Dependent("parent"), DormantDependent("parent")])
def test_what_no_clock_decides_has_no_cursor(schedule: Schedule) -> None:
    assert first_cursor(schedule, NOON) is None


@pytest.mark.parametrize(
    "schedule", [HOURLY, Cron("* * * * *"), Once(delay=minutes(5)), Once(at=NOON), Manual()]
)
@pytest.mark.parametrize("cursor", [None, NOON - minutes(9), NOON + minutes(9)])
def test_declaring_the_same_again_moves_nothing(schedule: Schedule, cursor: None) -> None:
    assert changed_cursor(schedule, schedule, cursor=cursor, now=NOON) == cursor


def test_a_restart_does_not_arm_a_delay_again_but_a_changed_delay_does() -> None:
    before = Once(delay=minutes(5))

    assert changed_cursor(before, Once(delay=minutes(5)), cursor=None, now=NOON) is None
    assert changed_cursor(before, Once(delay=minutes(6)), cursor=None, now=NOON) == NOON + minutes(6)


def test_a_once_for_another_instant_is_armed_again() -> None:
    assert changed_cursor(Once(at=NOON), Once(at=NOON + minutes(9)), cursor=None, now=NOON) == NOON + minutes(
        9
    )


def test_another_zone_for_exclusions_moves_no_instant() -> None:
    cursor = NOON + minutes(7)

    assert changed_cursor(HOURLY, Interval(HOURLY.every, "Asia/Tokyo"), cursor=cursor, now=NOON) == cursor
    assert changed_cursor(Once(at=NOON), Once(at=NOON, timezone="Asia/Tokyo"), cursor=None, now=NOON) is None


@pytest.mark.parametrize(("every", "due_in"), [(10, 0), (45, 15), (120, 90)])
def test_a_changed_interval_counts_from_the_instant_before(every: int, due_in: int) -> None:
    cursor = NOON + minutes(30)  # so the last one was half an hour ago

    assert changed_cursor(HOURLY, Interval(minutes(every)), cursor=cursor, now=NOON) == NOON + minutes(due_in)


def test_another_kind_of_schedule_begins_as_a_new_one_does() -> None:
    assert changed_cursor(HOURLY, Cron("5 * * * *"), cursor=NOON, now=NOON) == NOON + minutes(5)
    assert changed_cursor(HOURLY, Manual(), cursor=NOON, now=NOON) is None


@pytest.mark.parametrize(
    ("before", "cursor_in", "due_in"),
    [
        (Cron("5 * * * *"), 5, 5),
        (Cron("0 3 * * *"), 900, 60),
        (Cron("5 * * * *"), -5, 0),
        (Manual(), None, 60),
    ],
)
def test_an_interval_in_the_place_of_another_schedule_is_not_due_at_once(
    before: Schedule, cursor_in: int | None, due_in: int
) -> None:
    cursor = None if cursor_in is None else NOON + minutes(cursor_in)

    assert changed_cursor(before, HOURLY, cursor=cursor, now=NOON) == NOON + minutes(due_in)
