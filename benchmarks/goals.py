"""What a case is held to: a figure, its ratio to another contestant's or all of a set, and the bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from benchmarks.rounds import Rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound on a median; with `than`, on the ratio to that contestant, taken round by round."""

    contestant: str
    metric: str
    at_least: float | None = None
    at_most: float | None = None
    than: str | None = None

    def verdict(self, rounds: Rounds[str]) -> str:
        """One line: what was asked for, what came out."""
        missing = [name for name in (self.contestant, self.than) if name and not is_measured(rounds, name)]
        if missing:
            return f"{self._asked()}: not judged, since {' and '.join(missing)} was not measured."
        figure = self._figure(rounds)
        is_met = (self.at_least is None or figure >= self.at_least) and (
            self.at_most is None or figure <= self.at_most
        )
        return f"{self._asked()}: {figure:.2f}, {word_for(is_met=is_met)}."

    def _figure(self, rounds: Rounds[str]) -> float:
        if self.than is None:
            return rounds.summary(self.contestant, self.metric).median
        return rounds.ratio(self.contestant, self.than, self.metric).median

    def _asked(self) -> str:
        bounds = {"at least": self.at_least, "at most": self.at_most}
        bound = " and ".join(f"{word} {value:g}" for word, value in bounds.items() if value is not None)
        times = "" if self.than is None else f" times {self.than}"
        return f"Goal for {self.contestant}: {self.metric} {bound}{times}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """No worse than the best of several others, by the median of ratios taken round by round."""

    contestant: str
    metric: str
    others: tuple[str, ...]

    def verdict(self, rounds: Rounds[str]) -> str:
        """One line: which of the others was the best, and how the contestant compares with it."""
        asked = f"Goal for {self.contestant}: {self.metric} no worse than the best peer's"
        measured = [name for name in self.others if is_measured(rounds, name)]
        if not measured or not is_measured(rounds, self.contestant):
            return f"{asked}: not judged, since none was measured."
        best = self._best(rounds, measured)
        figure = rounds.ratio(self.contestant, best, self.metric).median
        is_met = figure <= 1 if self._is_less_better else figure >= 1
        return f"{asked}: {figure:.2f} times {best}'s, {word_for(is_met=is_met)}."

    @property
    def _is_less_better(self) -> bool:
        return self.metric.endswith("ms")

    def _best(self, rounds: Rounds[str], measured: Collection[str]) -> str:
        choose = min if self._is_less_better else max
        return choose(measured, key=lambda name: rounds.summary(name, self.metric).median)


def word_for(*, is_met: bool) -> str:
    """What the reports say of a goal."""
    return "met" if is_met else "**missed**"


def is_measured(rounds: Rounds[str], contestant: str) -> bool:
    """Whether a contestant took part to the end."""
    return all(rounds.samples.get(contestant, [{}]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A bound that every one of several figures must keep."""

    asked: str
    held: tuple[tuple[str, str], ...]  #: contestant and metric of each
    at_least: float

    def verdict(self, rounds: Rounds[str]) -> str:
        """One line: what was asked for, the worst figure, how many fall short."""
        figures = {place: rounds.summary(*place).median for place in self.held}
        contestant, metric = worst = min(figures, key=lambda place: figures[place])
        missed = sum(1 for figure in figures.values() if figure < self.at_least)
        judged = f"**missed** in {missed} of {len(figures)}" if missed else f"met in all {len(figures)}"
        return (
            f"Goal for {self.asked}: at least {self.at_least:g}: {judged}; "
            f"the smallest is {figures[worst]:.2f} ({contestant}, {metric})."
        )
