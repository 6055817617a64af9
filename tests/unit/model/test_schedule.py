from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone

import pytest

from gandy.model.schedule import (
    Cron,
    Dependent,
    DormantDependent,
    Interval,
    Manual,
    Once,
    Schedule,
    ScheduleType,
    timezone_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE_OF_EACH: list[tuple[Schedule, ScheduleType, str]] = [
    (Manual(), ScheduleType.NONE, "UTC"),
    (Cron("* * * * *", "Asia/Tokyo"), ScheduleType.CRON, "Asia/Tokyo"),
    (Interval(timedelta(hours=1), "Asia/Tokyo"), ScheduleType.INTERVAL, "Asia/Tokyo"),
    (Once(at=NOW, timezone="Asia/Tokyo"), ScheduleType.ONCE, "Asia/Tokyo"),
    (Dependent("parent"), ScheduleType.DEPENDENT, "UTC"),
    (DormantDependent("parent"), ScheduleType.DORMANT_DEPENDENT, "UTC"),
]


def test_every_schedule_has_its_word_and_its_zone() -> None:
    assert {kind for _, kind, _ in ONE_OF_EACH} == set(ScheduleType)
    for schedule, kind, zone in ONE_OF_EACH:
        assert schedule.type is kind
        assert timezone_of(schedule) == zone


def test_a_schedule_is_a_value_so_that_items_of_a_batch_cannot_change_each_others() -> None:
    shared = Interval(timedelta(hours=1))

    assert hash(shared) == hash(Interval(timedelta(hours=1)))
    with pytest.raises(FrozenInstanceError):
        shared.every = timedelta(hours=2)  # type: ignore[misc]  # that it cannot be set is the test


def test_an_instant_is_kept_in_utc_and_a_delay_counts_from_now() -> None:
    tokyo = datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))

    assert Once(at=tokyo).due_at(NOW + timedelta(days=9)) == NOW
    assert Once(at=tokyo).due_at(NOW).tzinfo is UTC
    assert Once(delay=timedelta(minutes=5)).due_at(NOW) == NOW + timedelta(minutes=5)
