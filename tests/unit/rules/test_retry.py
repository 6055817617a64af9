from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.rules.ending import backoff
from tests.unit.rules.views import minutes


@pytest.mark.parametrize(
    ("failures", "expected"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (6, 60), (10**9, 60)]
)
def test_backoff_doubles_from_five_minutes_to_an_hour(failures: int, expected: int) -> None:
    assert backoff(failures) == minutes(expected)


def test_a_delay_of_its_own_takes_the_place_of_the_five_minutes() -> None:
    assert backoff(3, timedelta(seconds=10)) == timedelta(seconds=40)
    assert backoff(3, timedelta(0)) == timedelta(0)
    assert backoff(3, timedelta(hours=2)) == timedelta(hours=2)


@settings(max_examples=300)
@given(st.integers(-5, 10**6), st.timedeltas(timedelta(0), timedelta(days=9999)))
def test_backoff_never_shrinks_and_never_passes_the_longest(failures: int, first: timedelta) -> None:
    assert backoff(failures, first) <= backoff(failures + 1, first) <= max(first, timedelta(hours=1))
