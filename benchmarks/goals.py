"""What a case is held to: a figure, its ratio to another contestant's or all of a set, and the bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        figure = self._figure(rounds)
        is_met = (self.at_least is None or figure >= self.at_least) and (
            self.at_most is None or figure <= self.at_most
        )
        return f"{self._asked()}: {figure:.2f}, {'met' if is_met else '**missed**'}."

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
