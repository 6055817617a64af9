from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.errors import TimezoneNotFoundError
from gandy.rules.zones import (
    instant_of,
    seconds_of,
    stretches_back,
    stretches_from,
    year_stretches,
    zone,
)
from tests.unit.rules.wall_clocks import CHANGES, window

IANA = sorted(name for name in available_timezones() if "/" in name or name == "UTC")
seconds = st.integers(-2_200_000_000, 4_100_000_000)  # the years 1900 to 2099


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(IANA), seconds)
def test_every_instant_lies_in_a_stretch_with_the_zones_own_offset(name: str, at: int) -> None:
    expected = instant_of(at).astimezone(ZoneInfo(name)).utcoffset()
    forward, backward = next(stretches_from(name, at, years=1)), next(stretches_back(name, at, floor=at))

    assert forward == backward
    assert forward.start <= at < forward.end
    assert timedelta(seconds=forward.offset) == expected


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(IANA), st.integers(1900, 2099))
def test_the_stretches_of_a_year_follow_each_other_without_a_hole(name: str, year: int) -> None:
    stretches = [*year_stretches(name, year), *year_stretches(name, year + 1)]

    assert all(before.end == after.start for before, after in pairwise(stretches))


@pytest.mark.parametrize(("name", "day"), CHANGES)
def test_a_change_is_a_gap_or_a_repetition_of_just_the_seconds_that_the_clock_moved(
    name: str, day: str
) -> None:
    start, end = (seconds_of(instant) for instant in window(day))
    changes = [
        (before, after)
        for before, after in pairwise(stretches_from(name, start, years=1))
        if start < after.start < end and before.offset != after.offset
    ]

    ((before, after),) = changes
    assert after.wall_start - after.reached == after.offset - before.offset


def test_a_zone_is_found_once_and_a_wrong_name_says_so_every_time() -> None:
    assert zone("Europe/Berlin") is zone("Europe/Berlin")
    for _ in range(2):
        with pytest.raises(TimezoneNotFoundError, match="Mars/Olympus"):
            zone("Mars/Olympus")
