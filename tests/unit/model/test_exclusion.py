from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.errors import ExclusionError
from gandy.model.exclusion import DateRange, Dates, Days, Exclusion, TimeWindow, Weekday, from_json, to_json

times = st.times().map(lambda at: at.replace(microsecond=0))
exclusions = st.one_of(
    st.sets(st.sampled_from(Weekday), min_size=1, max_size=6).map(lambda days: Days(frozenset(days))),
    st.sets(st.dates(), min_size=1, max_size=20).map(lambda days: Dates(frozenset(days))),
    st.tuples(st.dates(), st.dates()).map(lambda pair: DateRange(*sorted(pair))),
    st.tuples(times, times).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: TimeWindow(*pair)),
)


@settings(max_examples=300)
@given(st.lists(exclusions, max_size=10).map(tuple))
def test_what_is_stored_is_read_back_the_same(given_exclusions: tuple[Exclusion, ...]) -> None:
    assert from_json(to_json(given_exclusions)) == given_exclusions


def test_equal_exclusions_are_stored_as_equal_text() -> None:
    assert (
        to_json([Days.on("sun", "mon")])
        == to_json([Days.on("Monday", "SUNDAY")])
        == '[{"days":["mon","sun"]}]'
    )


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "null",
        "[1]",
        "not json",
        "[" * 100_000,
        '[{"days": ["caturday"]}]',
        '[{"days": [1]}]',
        '[{"days": []}]',
        '[{"dates": ["2026-13-01"]}]',
        '[{"first": "2026-02-01", "last": "2026-01-01"}]',
        '[{"start": "10:00", "end": "10:00"}]',
        '[{"start": "10:00"}]',
        '[{"days": ["mon"], "start": "10:00", "end": "11:00"}]',
        " " * 2_000_000,
    ],
)
def test_text_that_is_no_exclusion_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(ExclusionError) as caught:
        from_json(text)

    assert len(str(caught.value)) < 400


def test_huge_lists_are_refused() -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(1001)]

    with pytest.raises(ExclusionError, match="1001 dates"):
        Dates.on(*days)
    with pytest.raises(ExclusionError, match="101 exclusions"):
        to_json([Days.on("mon")] * 101)
    with pytest.raises(ExclusionError, match="101 exclusions"):
        from_json(json.dumps([{"days": ["mon"]}] * 101))


@pytest.mark.parametrize(
    "build",
    [
        Days.on,
        lambda: Days.on("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
        Dates.on,
        lambda: Dates.on(datetime(2026, 1, 1, tzinfo=UTC)),
        lambda: TimeWindow(time(1, tzinfo=UTC), time(2)),
        lambda: TimeWindow(time(1, microsecond=1), time(2)),
    ],
)
def test_an_exclusion_that_means_nothing_or_everything_is_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(ExclusionError):
        build()
