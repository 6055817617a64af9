"""The short form of `make fuzz`: fixed cases, and some that change with the day."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from tests.lifecycle.fuzz.bench import Bench
from tests.lifecycle.fuzz.cases import CASES_PER_SHAPE, Fuzz

pytestmark = pytest.mark.timeout(300)

# Each is the first case of a schema; the cases that follow share it.
FIRST_CASES = tuple(range(0, 6 * CASES_PER_SHAPE, CASES_PER_SHAPE))
#: More of them run for `make mutants`, which asks what notices a broken guard.
IS_FULL = bool(os.environ.get("GANDY_TEST_FULL_FUZZ"))
CASES = {"sqlite": 15, "postgresql": 8} if IS_FULL else {"sqlite": 8, "postgresql": 5}


def cases_of_today() -> int:
    """The first case of a schema that no day before has seen."""
    return datetime.now(UTC).date().toordinal() * CASES_PER_SHAPE


def broken_cases(url: str, first: int) -> list[str]:
    fuzz = Fuzz(Bench(url))
    broken = []
    for number in range(first, first + CASES[fuzz.bench.database]):
        outcome = fuzz.run(number)
        if outcome.faults:
            broken.append(fuzz.describe(number, outcome))
    fuzz.bench.close()
    return broken


@pytest.mark.parametrize("first", FIRST_CASES)
def test_sweep_takes_what_it_may_and_must(database_url: str, first: int) -> None:
    assert broken_cases(database_url, first) == []


def test_sweep_takes_what_it_may_and_must_today(database_url: str) -> None:
    first = cases_of_today()
    print(f"cases from {first} on: make fuzz START={first}")  # noqa: T201  # shown where the test fails

    assert broken_cases(database_url, first) == []
