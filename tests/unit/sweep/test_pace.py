from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.sweep import BatchSize, Budget, Pace, drive, walk
from tests.unit.sweep.simulated import SimulatedTable

if TYPE_CHECKING:
    from random import Random

MS = timedelta(milliseconds=1)


@settings(max_examples=300)
@given(cost=st.floats(0.001, 200), start=st.integers(1, 10_000))
def test_batches_settle_near_the_target_whatever_a_row_costs(cost: float, start: int) -> None:
    size = BatchSize(Pace(start=start, largest=10_000))
    for _ in range(80):
        size.learn(cost * size.rows * MS)

    elapsed = cost * size.rows * MS
    assert size.rows <= 2 or elapsed <= 1.5 * 50 * MS + cost * MS
    assert size.rows == 10_000 or elapsed * 4 >= 50 * MS


@settings(max_examples=300)
@given(
    overhead=st.floats(0, 400), cost=st.floats(0.001, 20), start=st.integers(1, 10_000), noise=st.randoms()
)
def test_batches_grow_while_round_trips_take_most_of_their_time(
    overhead: float, cost: float, start: int, noise: Random
) -> None:
    """A batch is neither mostly overhead nor much longer than the target and twice the overhead."""
    size = BatchSize(Pace(start=start, largest=10_000))
    spent = rows = 0.0
    for number in range(400):
        elapsed = (overhead + cost * size.rows) * noise.uniform(0.97, 1.03)
        if number >= 100:
            spent, rows = spent + elapsed, rows + size.rows
        size.learn(elapsed * MS)

    longest = max(50.0, 2 * overhead, overhead + 2 * cost)
    fewest = min(10_000, max(1.0, (longest - overhead) / cost))
    assert rows / 300 >= fewest / 12
    assert spent / 300 <= 2.5 * longest


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
