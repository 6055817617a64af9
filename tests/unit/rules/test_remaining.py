from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gandy.errors import ExclusionError
from gandy.model.exclusion import WEEK, DateRange, Dates, Days, Exclusion, TimeWindow
from gandy.model.schedule import Cron, Interval, Once
from gandy.rules.exclusions import is_excluded, refuse_none_left
from gandy.rules.timetable import timetable_of

NOW = datetime(2026, 1, 5, 10, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
BERLIN = "Europe/Berlin"
MOST = 2_000


def is_refused(schedule: Cron | Interval, exclusions: tuple[Exclusion, ...]) -> bool:
    try:
        refuse_none_left(schedule, exclusions, now=NOW, anchor=NOW)
    except ExclusionError:
        return True
    return False


def leaves_one(schedule: Cron | Interval, exclusions: tuple[Exclusion, ...], *, most: int) -> bool:
    """Go through the coming instants one by one."""
    timetable, at = timetable_of(schedule, NOW), NOW - timedelta(microseconds=1)
    for _ in range(most):
        following = timetable.next_after(at)
        if following is None:
            return False
        if not is_excluded(exclusions, following, schedule.timezone):
            return True
        at = following
    return False


hours = st.integers(0, 23).map(time)
windows = st.builds(lambda start, end: (start, end), hours, hours).filter(lambda pair: pair[0] != pair[1])
weekly = st.one_of(
    st.frozensets(st.sampled_from(WEEK), min_size=1, max_size=6).map(Days),
    windows.map(lambda pair: TimeWindow(*pair)),
)
dates = st.one_of(
    st.just(Dates.on(date(2026, 1, 6), date(2026, 2, 1))),
    st.just(DateRange(date(2026, 1, 1), date(2026, 1, 20))),
)
lists = st.lists(st.one_of(weekly, weekly, weekly, dates), min_size=1, max_size=5).map(tuple)
crons = st.builds(
    lambda hour, day, zone: Cron(f"30 {hour} * * {day}", zone),
    st.sampled_from(["*", "4", "22-23", "*/6", "0,12"]),
    st.sampled_from(["*", "1", "6,0", "1-5"]),
    st.sampled_from(["UTC", "Asia/Tokyo"]),
)
rates = st.builds(
    Interval,
    st.sampled_from([1, 5, 6, 12, 24, 25, 36, 48, 168, 175]).map(lambda count: count * HOUR),
    st.sampled_from(["UTC", "Asia/Tokyo"]),
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(crons, rates), lists)
def test_exclusions_are_refused_where_no_instant_of_years_is_left(
    schedule: Cron | Interval, exclusions: tuple[Exclusion, ...]
) -> None:
    assert is_refused(schedule, exclusions) != leaves_one(schedule, exclusions, most=MOST)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 2_000_000), lists)
def test_any_rate_is_judged_by_where_its_instants_can_ever_come(
    seconds: int, exclusions: tuple[Exclusion, ...]
) -> None:
    schedule = Interval(timedelta(seconds=seconds))
    assume(not any(isinstance(each, Dates | DateRange) for each in exclusions))

    if leaves_one(schedule, exclusions, most=MOST):
        assert not is_refused(schedule, exclusions)
    if is_refused(schedule, exclusions):
        assert not leaves_one(schedule, exclusions, most=MOST)


WHOLE_DAY = (TimeWindow(time(6), time(18)), TimeWindow(time(17), time(7)))
WHOLE_WEEK = (Days.on("mon", "tue", "wed", "thu"), Days.on("fri", "sat", "sun"))
ALL_TIME = (DateRange(date(1970, 1, 1), date.max),)


@pytest.mark.parametrize("exclusions", [WHOLE_DAY, WHOLE_WEEK, ALL_TIME], ids=["day", "week", "all time"])
@pytest.mark.parametrize("schedule", [Cron("* * * * *"), Cron("0 3 29 2 *"), Interval(HOUR)], ids=str)
@pytest.mark.parametrize("now", [None, NOW], ids=["declared", "seeded"])
def test_what_covers_everything_is_refused_before_any_clock_is_asked(
    schedule: Cron | Interval, exclusions: tuple[Exclusion, ...], now: datetime | None
) -> None:
    with pytest.raises(ExclusionError, match="would ever run"):
        refuse_none_left(schedule, exclusions, now=now)


@pytest.mark.parametrize(
    ("schedule", "exclusions"),
    [
        (Cron("0 3 * * *"), (DateRange(date(2026, 1, 1), date(2999, 12, 31)),)),
        (Cron("0 3 29 2 *"), (Days.on("mon", "tue", "wed", "thu", "fri", "sat"),)),
        (Interval(timedelta(hours=24, seconds=1)), (TimeWindow(time(8), time(18)),)),
        (Interval(timedelta(days=1), BERLIN), (TimeWindow(time(11), time(12)),)),
        (Cron("0 3 * * *"), (Dates.on(date(2026, 1, 6)),)),
    ],
    ids=["until 2999", "29th of February on a Sunday", "a second a day", "in summer", "one date"],
)
def test_what_leaves_an_instant_however_late_is_taken(
    schedule: Cron | Interval, exclusions: tuple[Exclusion, ...]
) -> None:
    refuse_none_left(schedule, exclusions)
    refuse_none_left(schedule, exclusions, now=NOW, anchor=NOW)


def test_a_range_to_the_end_of_time_is_taken_while_it_has_not_begun() -> None:
    ends = (DateRange(date(2027, 1, 1), date.max),)

    refuse_none_left(Cron("0 3 * * *"), ends, now=NOW)
    with pytest.raises(ExclusionError):
        refuse_none_left(Cron("0 3 * * *"), ends, now=NOW + timedelta(days=400))


def test_an_instant_that_only_a_clock_change_makes_does_not_count() -> None:
    with pytest.raises(ExclusionError, match="time of day"):
        refuse_none_left(Cron("30 2 * * *", BERLIN), (TimeWindow(time(2), time(3)),), now=NOW)


def test_a_once_is_judged_elsewhere() -> None:
    refuse_none_left(Once(at=NOW), WHOLE_DAY, now=NOW)
