"""The engine without a database: what a train costs beside plain calls of the same functions.

`python -m benchmarks.engine [--quick]`. Both sides take turns in every round; medians over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import TypeAlias

from gandy.train.base import Engine, Train
from gandy.train.definition import TrainDefinition, define_function
from gandy.train.run import MemorySink, Run

Once: TypeAlias = Callable[[int], Awaitable[object]]
NS_PER_US = 1_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same work, by plain calls and as a train."""

    name: str
    junctions: int
    plain: Once
    train: Once
    calls: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of one comparison, in microseconds per train."""

    comparison: Comparison
    plain_us: float
    train_us: float
    ratio: float  # of pairs measured one after the other

    @property
    def overhead_us(self) -> float:
        """What the engine adds to one train."""
        return self.train_us - self.plain_us


async def carry(number: int) -> int:
    """Do nothing, on the loop."""
    return number


def carry_in_thread(number: int) -> int:
    """Do nothing, in a thread."""
    return number


class FiveJunctions(Train[int, int]):
    """Five async junctions."""

    route = (carry,) * 5


class TenJunctions(Train[int, int]):
    """Ten async junctions."""

    route = (carry,) * 10


def comparisons(engine: Engine, calls: int) -> list[Comparison]:
    """Return what is compared; threads cost so much more that fewer calls do."""
    sink = MemorySink()

    def as_train(definition: TrainDefinition[object, object]) -> Once:
        return lambda number: engine.execute(definition, number, run=Run(train=definition.name, sink=sink))

    async def five(number: int) -> int:
        for _ in range(5):
            number = await carry(number)
        return number

    async def ten(number: int) -> int:
        for _ in range(10):
            number = await carry(number)
        return number

    in_thread = define_function(carry_in_thread)
    return [
        Comparison("1 async junction", 1, carry, as_train(define_function(carry)), calls),
        Comparison("5 async junctions", 5, five, as_train(FiveJunctions.definition), calls),
        Comparison("10 async junctions", 10, ten, as_train(TenJunctions.definition), calls),
        Comparison(
            "1 sync junction beside asyncio.to_thread",
            1,
            lambda number: asyncio.to_thread(carry_in_thread, number),
            as_train(in_thread),
            calls // 10,
        ),
    ]


async def measure(comparison: Comparison, rounds: int) -> Figures:
    """Alternate both sides, so that a machine that drifts drifts for both."""
    pairs = []
    for turn in range(rounds):
        sides = [comparison.plain, comparison.train]
        order = sides if turn % 2 == 0 else sides[::-1]
        spent = {side: await _per_call(side, comparison.calls) for side in order}
        pairs.append((spent[comparison.plain], spent[comparison.train]))
    return Figures(
        comparison,
        plain_us=median(plain for plain, _ in pairs),
        train_us=median(train for _, train in pairs),
        ratio=median(train / plain for plain, train in pairs),
    )


async def _per_call(side: Once, calls: int) -> float:
    begun = perf_counter_ns()
    for number in range(calls):
        await side(number)
    return (perf_counter_ns() - begun) / calls / NS_PER_US


def per_junction_us(figures: list[Figures]) -> float:
    """What each further async junction adds, between the shortest and the longest train."""
    shortest, longest = figures[0], figures[2]
    more = longest.comparison.junctions - shortest.comparison.junctions
    return (longest.overhead_us - shortest.overhead_us) / more


async def main(*, calls: int, rounds: int) -> list[Figures]:
    """Measure every comparison and print the table."""
    engine = Engine()
    figures = [await measure(comparison, rounds) for comparison in comparisons(engine, calls)]
    await engine.close()
    print(f"## The engine without a database: medians of {rounds} rounds, {calls} trains each\n")
    print("| train | plain us | engine us | added us | ratio |\n|---|---|---|---|---|")
    for each in figures:
        print(
            f"| {each.comparison.name} | {each.plain_us:.2f} | {each.train_us:.2f} "
            f"| {each.overhead_us:.2f} | {each.ratio:.1f} |"
        )
    print(f"\nEach further async junction adds {per_junction_us(figures):.2f} us.")
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    quick = parser.parse_args().quick
    asyncio.run(main(calls=500 if quick else 20_000, rounds=3 if quick else 11))
