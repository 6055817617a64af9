"""Alternation and pairing: every round runs each contestant once, ratios are taken inside a round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Measured = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Summary:
    """Median of one metric with the span of its middle half."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the middle span, as a share of the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


@dataclass(slots=True)
class Rounds(Generic[Key]):
    """What every contestant measured in every round."""

    samples: dict[Key, list[Measured]] = field(default_factory=dict)

    def add(self, contestant: Key, measured: Measured) -> None:
        """Record one contestant's figures for the current round."""
        self.samples.setdefault(contestant, []).append(measured)

    def metrics(self, contestant: Key) -> list[str]:
        """The metrics that this contestant reported."""
        return list(dict.fromkeys(name for measured in self.samples[contestant] for name in measured))

    def summary(self, contestant: Key, metric: str) -> Summary:
        """Median and middle half of a metric over the rounds."""
        return summarise([measured[metric] for measured in self.samples[contestant] if metric in measured])

    def ratio(self, contestant: Key, base: Key, metric: str) -> Summary:
        """Median of the ratios taken round by round, so that drift of the machine cancels out."""
        pairs = zip(self.samples[contestant], self.samples[base], strict=True)
        return summarise([mine[metric] / other[metric] for mine, other in pairs if other.get(metric)])


def alternate(contestants: Sequence[Key], repetitions: int, run: Callable[[Key], Measured]) -> Rounds[Key]:
    """Run each contestant once a round, starting each round with another one."""
    rounds: Rounds[Key] = Rounds()
    for turn in range(repetitions):
        first = turn % len(contestants)
        for contestant in (*contestants[first:], *contestants[:first]):
            rounds.add(contestant, run(contestant))
    return rounds


def summarise(values: Sequence[float]) -> Summary:
    """Median and quartiles; with fewer than four values the extremes."""
    if not values:
        return Summary(0.0, 0.0, 0.0)
    if len(values) < 4:  # noqa: PLR2004
        return Summary(statistics.median(values), min(values), max(values))
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Summary(middle, low, high)
