from __future__ import annotations

import math
from random import Random

import pytest

from gandy.model.run import RunMeasure, TrainState
from gandy.rules.tallies import Histogram, Tallies, count_runs

SHARES = (0.5, 0.95, 0.99, 1.0)
LARGEST_ERROR = 0.045


def exact(values: list[float], share: float) -> float:
    """The percentile by nearest rank."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


@pytest.mark.parametrize("seed", range(5))
def test_a_percentile_is_off_by_less_than_it_says(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - not for secrets
    values = [random.lognormvariate(seed - 3, 2.5) for _ in range(500)]
    histogram = Histogram()
    histogram.add(values)

    for share in SHARES:
        found = histogram.percentile(share)
        assert found is not None
        true = exact(values, share)
        assert abs(found.total_seconds() - true) <= max(0.001, LARGEST_ERROR * true)


def test_texts_are_added_by_writing_one_after_the_other() -> None:
    first, second, both = Histogram(), Histogram(), Histogram()
    for part, value in ((first, 0.5), (first, 12.0), (second, 0.5), (second, 0.0001), (second, 86_400.0)):
        part.add([value])
        both.add([value])

    assert Histogram(f"{first}{second}").counts == both.counts


def test_without_values_there_is_no_percentile() -> None:
    assert Histogram().percentile(0.5) is None


def test_cancelled_runs_are_counted_but_are_no_part_of_waits_and_durations() -> None:
    tallies: Tallies = {}

    count_runs(
        tallies,
        [
            RunMeasure("Sell", None, TrainState.COMPLETED, 7, 1.0, 2.0),
            RunMeasure("Sell", None, TrainState.FAILED, 7, 3.0, 4.0),
            RunMeasure("Sell", None, TrainState.CANCELLED, 7, 900.0, 900.0),
            RunMeasure("Sell", 5, TrainState.COMPLETED, 7, 1.0, 2.0),
        ],
    )

    ad_hoc = tallies[("Sell", 0, 7)]
    assert (ad_hoc.completed, ad_hoc.failed, ad_hoc.cancelled) == (1, 1, 1)
    assert (ad_hoc.longest_wait, ad_hoc.longest) == (3.0, 4.0)
    assert ad_hoc.waits.counts.total() == ad_hoc.durations.counts.total() == 2
    assert set(tallies) == {("Sell", 0, 7), ("Sell", 5, 7)}
