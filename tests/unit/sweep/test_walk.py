from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.sweep import Answer, Budget, Pace, Patience, Request, SweepEnding, drive, drive_async, walk
from tests.unit.sweep.simulated import SimulatedTable

_KEYS = st.sets(st.integers(0, 400), max_size=150)


@settings(max_examples=400)
@given(rows=_KEYS, poison=_KEYS, locked=_KEYS, start=st.integers(1, 60))
def test_everything_goes_but_what_cannot_and_what_is_held(
    rows: set[int], poison: set[int], locked: set[int], start: int
) -> None:
    locked = locked - poison
    table = SimulatedTable(set(rows), poison=poison & rows, locked=locked & rows)

    result = drive(
        walk(None, pace=Pace(start=start, largest=100), patience=Patience(set_aside=999, passed_over=999)),
        table.perform,
    )

    assert result.ending is SweepEnding.EXHAUSTED
    assert table.rows == (poison | locked) & rows
    assert sorted(table.quarantine) == sorted(poison & rows)
    assert sorted(table.passed) == sorted(locked & rows)
    assert result.rows == len(rows - poison - locked)
    assert (result.set_aside, result.passed_over) == (len(poison & rows), len(locked & rows))


def test_one_poison_row_is_found_in_a_number_of_batches_that_grows_with_the_logarithm() -> None:
    table = SimulatedTable(set(range(4096)), poison={2777})

    result = drive(walk(None, pace=Pace(start=4096, largest=4096)), table.perform)

    assert table.rows == {2777}
    assert len(table.limits) <= 2 * 13 + 2
    assert result.reason == "row 2777 is referenced"


def test_too_many_poison_rows_end_the_sweep_as_poisoned() -> None:
    table = SimulatedTable(set(range(50)), poison=set(range(50)))

    result = drive(walk(None, patience=Patience(set_aside=3)), table.perform)

    assert result.ending is SweepEnding.POISONED
    assert result.set_aside == 3


def test_a_locked_table_ends_the_sweep_as_contended() -> None:
    table = SimulatedTable(set(range(50)), is_table_locked=True)

    result = drive(walk(None, pace=Pace(start=8)), table.perform)

    assert result.ending is SweepEnding.CONTENDED
    assert table.limits == [8, 4, 2, 1, 1]
    assert len(table.rows) == 50


@settings(max_examples=200)
@given(count=st.integers(0, 500), budget=st.integers(1, 300), start=st.integers(1, 200))
def test_a_row_budget_is_never_exceeded_and_is_used_up(count: int, budget: int, start: int) -> None:
    table = SimulatedTable(set(range(count)))

    result = drive(walk(None, pace=Pace(start=start), budget=Budget(rows=budget)), table.perform)

    assert result.rows == min(count, budget)
    assert (result.ending is SweepEnding.ROWS_SPENT) == (count >= budget)


def test_a_time_budget_ends_the_sweep_between_two_batches() -> None:
    table = SimulatedTable(set(range(1000)), per_row=timedelta(milliseconds=1))
    pace = Pace(start=10, largest=10, target=timedelta(seconds=1))

    result = drive(walk(None, pace=pace, budget=Budget(time=timedelta(milliseconds=35))), table.perform)

    assert result.ending is SweepEnding.TIME_SPENT
    assert result.rows == 40


def test_a_sweep_stops_between_two_batches_when_asked() -> None:
    table = SimulatedTable(set(range(1000)), stop_after=3)

    result = drive(walk(None, pace=Pace(start=10, largest=10)), table.perform)

    assert result.ending is SweepEnding.STOPPED
    assert (result.rows, result.cursor) == (30, 29)


def test_a_sweep_goes_on_after_the_cursor_it_is_given() -> None:
    table = SimulatedTable(set(range(100)))

    drive(walk(59), table.perform)

    assert table.rows == set(range(60))


def test_a_throttle_makes_the_sweep_rest_longer_each_time_and_counts_as_time() -> None:
    table = SimulatedTable(set(range(5)), holds=3)

    result = drive(walk(None), table.perform)

    assert [rest / timedelta(milliseconds=1) for rest in table.rests] == [50, 100, 200]
    assert result.elapsed == timedelta(milliseconds=350)
    assert not table.rows


def test_a_throttle_that_never_lifts_uses_up_the_time_budget() -> None:
    table = SimulatedTable({1}, holds=10_000)

    result = drive(walk(None, budget=Budget(time=timedelta(seconds=20))), table.perform)

    assert result.ending is SweepEnding.TIME_SPENT
    assert table.rows == {1}


async def test_an_asynchronous_driver_gets_the_same_sweep() -> None:
    table = SimulatedTable(set(range(777)), poison={5})

    async def perform(request: Request[int]) -> Answer[int]:
        return table.perform(request)

    result = await drive_async(walk(None), perform)

    assert (result.rows, result.set_aside, table.rows) == (776, 1, {5})
