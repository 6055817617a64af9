from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from gandy.clock import Clock, ClockWatch, ManualClock
from gandy.errors import ClockReversedError, NaiveInstantError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_manual_clock_stands_still_until_it_is_advanced() -> None:
    clock: Clock = ManualClock(NOON)
    assert clock.now == clock.now == NOON

    assert isinstance(clock, ManualClock)
    assert clock.advance(timedelta(minutes=5)) == clock.now == NOON + timedelta(minutes=5)


def test_a_clock_does_not_go_back() -> None:
    clock = ManualClock(NOON)

    with pytest.raises(ClockReversedError):
        clock.advance(timedelta(seconds=-1))

    assert clock.now == NOON


def test_an_instant_without_a_time_zone_is_refused() -> None:
    with pytest.raises(NaiveInstantError):
        ManualClock(NOON.replace(tzinfo=None))


def test_no_advance_is_lost_between_threads() -> None:
    clock = ManualClock(NOON)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: clock.advance(timedelta(seconds=1)), range(500)))

    assert clock.now == NOON + timedelta(seconds=500)


def test_a_clock_that_jumps_is_not_steady_before_ten_minutes_have_passed() -> None:
    clock = ManualClock(NOON)
    watch = ClockWatch(clock)
    for span in (timedelta(days=400), timedelta(days=-400), timedelta(hours=2)):
        clock.jump(span)
        assert watch.observe(clock.now).has_jumped
        clock.advance(timedelta(minutes=10))
        assert not watch.observe(clock.now).has_jumped
        assert watch.observe(clock.now).is_steady


def test_a_watch_sees_the_database_s_clock_move_without_time() -> None:
    watch = ClockWatch()

    assert not watch.observe(NOON).has_jumped, "the first instant is as good as any"
    assert not watch.observe(NOON + timedelta(minutes=59)).has_jumped
    assert watch.observe(NOON + timedelta(hours=3)).has_jumped
    assert watch.observe(NOON + timedelta(hours=3)).has_jumped, "it has not been steady for ten minutes"
