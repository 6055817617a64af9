from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.errors import ExcludedInstantError
from gandy.model.exclusion import DateRange, Dates, Days, Exclusion, TimeWindow
from gandy.model.schedule import Interval, Once
from gandy.rules.exclusions import is_excluded, refuse_excluded_once, stretch_start
from tests.unit.rules.wall_clocks import CHANGES, window

MONDAY = datetime(2026, 11, 16, 12, tzinfo=UTC)
NIGHT = TimeWindow(time(22), time(6))
SECOND = timedelta(seconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("exclusion", "inside", "outside"),
    [
        (
            Days.on("mon"),
            ["2026-11-16 00:00", "2026-11-16 23:59:59.999999"],
            ["2026-11-15 23:59", "2026-11-17 00:00"],
        ),
        (
            Dates.on(date(2026, 12, 24)),
            ["2026-12-24 00:00", "2026-12-24 23:59"],
            ["2026-12-23 23:59", "2026-12-25"],
        ),
        (
            DateRange(date(2026, 12, 24), date(2026, 12, 26)),
            ["2026-12-24 00:00", "2026-12-26 23:59:59"],
            ["2026-12-23 23:59:59", "2026-12-27 00:00"],
        ),
        (
            TimeWindow(time(9), time(17)),
            ["2026-11-16 09:00", "2026-11-16 16:59:59"],
            ["2026-11-16 17:00", "2026-11-16 08:59"],
        ),
        (
            NIGHT,
            ["2026-11-16 22:00", "2026-11-16 00:00", "2026-11-16 05:59:59"],
            ["2026-11-16 06:00", "2026-11-16 21:59"],
        ),
    ],
)
def test_an_exclusion_holds_from_its_start_to_just_before_its_end(
    exclusion: Exclusion, inside: list[str], outside: list[str]
) -> None:
    assert all(is_excluded((exclusion,), at(text), "UTC") for text in inside)
    assert not any(is_excluded((exclusion,), at(text), "UTC") for text in outside)


def test_exclusions_are_read_in_the_schedules_zone() -> None:
    assert not is_excluded((Days.on("tue"),), MONDAY, "UTC")
    assert is_excluded((Days.on("tue"),), MONDAY, "Pacific/Auckland")


def test_one_match_among_many_is_enough_and_none_is_none() -> None:
    assert is_excluded((Days.on("sun"), NIGHT, Days.on("mon")), MONDAY, "UTC")
    assert not is_excluded((), MONDAY, "UTC")


def test_a_once_on_an_excluded_instant_is_refused_when_scheduled() -> None:
    with pytest.raises(ExcludedInstantError, match="would never run"):
        refuse_excluded_once(Once(at=MONDAY), (Days.on("mon"),), MONDAY)

    refuse_excluded_once(Once(at=MONDAY), (Days.on("sun"),), MONDAY)
    refuse_excluded_once(Interval(SECOND), (Days.on("mon"),), MONDAY)


hours = st.integers(0, 95).map(lambda quarter: time(quarter // 4, quarter % 4 * 15))
some_exclusions = st.lists(
    st.tuples(hours, hours).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: TimeWindow(*pair))
    | st.sampled_from(["sat", "sun", "mon"]).map(Days.on),
    min_size=1,
    max_size=3,
).map(tuple)


@settings(max_examples=300, deadline=None)
@given(some_exclusions, st.sampled_from(CHANGES), st.integers(0, 80 * 3600))
def test_a_stretch_begins_where_walking_back_finds_the_first_difference(
    exclusions: tuple[Exclusion, ...], change: tuple[str, str], seconds: int
) -> None:
    (floor, _), zone = window(change[1]), change[0]
    instant = floor + timedelta(seconds=seconds)
    excluded = is_excluded(exclusions, instant, zone)
    walked, step = instant.replace(second=0), timedelta(minutes=1)
    while walked > floor and is_excluded(exclusions, walked - step, zone) == excluded:
        walked -= step

    assert stretch_start(exclusions, instant, zone, floor=floor) == max(walked, floor)
