from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.model.schedule import Interval
from gandy.rules.timetable import IntervalTimetable, timetable_of
from tests.unit.rules.views import NOON

spans = st.integers(-(10**9), 10**9).map(lambda micro: timedelta(microseconds=micro))
rates = st.integers(10**6, 10**8).map(lambda micro: timedelta(microseconds=micro))


@settings(max_examples=400)
@given(rates, spans, spans)
def test_an_interval_counts_as_walking_would(every: timedelta, one: timedelta, other: timedelta) -> None:
    table = IntervalTimetable(every, NOON)
    since, until = sorted((NOON + one, NOON + other))
    walked, at = [], NOON
    while at <= until:
        if at >= since:
            walked.append(at)
        at += every

    assert table.count_between(since, until) == len(walked)
    assert table.last_between(since, until) == (walked[-1] if walked else None)
    assert table.next_after(since) == next(
        NOON + number * every for number in range(10**4) if NOON + number * every > since
    )


def test_an_interval_has_no_instant_before_its_anchor() -> None:
    table = timetable_of(Interval(timedelta(hours=1)), NOON)

    assert table.next_after(NOON - timedelta(days=3)) == NOON
    assert table.last_between(NOON - timedelta(days=3), NOON - timedelta(hours=1)) is None
    assert table.count_between(NOON - timedelta(days=3), NOON + timedelta(hours=1)) == 2


def test_an_interval_ends_where_time_does() -> None:
    table = timetable_of(Interval(timedelta(days=30_000)), datetime(9990, 1, 1, tzinfo=UTC))

    assert table.next_after(datetime(9990, 1, 1, tzinfo=UTC)) is None
