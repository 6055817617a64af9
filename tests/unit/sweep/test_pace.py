from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.sweep import BatchSize, Budget, Pace, drive, walk
from tests.unit.sweep.simulated import SimulatedTable

MS = timedelta(milliseconds=1)


@settings(max_examples=300)
@given(cost=st.floats(0.001, 200), start=st.integers(1, 10_000))
def test_batches_settle_near_the_target_whatever_a_row_costs(cost: float, start: int) -> None:
    size = BatchSize(Pace(start=start, largest=10_000))
    for _ in range(80):
        size.learn(cost * size.rows * MS)

    elapsed = cost * size.rows * MS
    assert size.rows == 1 or elapsed <= 1.5 * 50 * MS + cost * MS
    assert size.rows == 10_000 or elapsed * 4 >= 50 * MS


def test_a_slow_batch_halves_the_next_and_quick_ones_recover_it() -> None:
    size = BatchSize(Pace(start=400, largest=400))

    size.learn(90 * MS)
    assert size.rows == 200
    for _ in range(2):
        size.learn(10 * MS)
    assert size.rows == 400


def test_a_batch_never_has_less_than_one_row() -> None:
    size = BatchSize(Pace(start=1))

    size.halve()

    assert size.rows == 1


def test_a_batch_cut_short_by_a_budget_does_not_change_the_size() -> None:
    table = SimulatedTable(set(range(100)), per_row=100 * MS)

    drive(walk(None, pace=Pace(start=50), budget=Budget(rows=1)), table.perform)

    assert table.limits == [1]


def test_the_size_grows_while_batches_are_quick_up_to_the_largest() -> None:
    table = SimulatedTable(set(range(2000)))

    drive(walk(None, pace=Pace(start=100, largest=400)), table.perform)

    assert table.limits[:5] == [100, 150, 225, 337, 400]
    assert max(table.limits) == 400


@pytest.mark.parametrize(("start", "target"), [(0, 50 * MS), (20_000, 50 * MS), (500, timedelta(0))])
def test_an_impossible_pace_is_refused(start: int, target: timedelta) -> None:
    with pytest.raises(ValueError, match="pace needs"):
        Pace(start=start, target=target)
