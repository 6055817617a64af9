"""An idle `gandy up`, in one process and with two worker processes: what it holds and uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from benchmarks.goals import Goal
from benchmarks.machine import describe
from benchmarks.rest.measuring import Span, measure
from benchmarks.result import Result
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.server import Server

COMMANDS: Final = {
    "up": ("up", "--port", "0"),
    "up --workers 2": ("up", "--port", "0", "--workers", "2"),
}
FULL: Final = Span(settle=75.0, measure=120.0)  # cleanups run once a minute: two of each are measured
QUICK: Final = Span(settle=5.0, measure=20.0)

GOALS: Final = (
    Goal(contestant="up", metric="connections", at_most=5),
    Goal(contestant="up", metric="transactions/s", at_most=2),
    Goal(contestant="up", metric="% of a core", at_most=0.5),
    Goal(contestant="up --workers 2", metric="connections", at_most=5 + 2 * 3),
)
NOTE: Final = (
    "All services on, nothing to do. Connections: the most that were open at any time; memory: of pages that "
    "processes share, each counts its part."
)


@dataclass(frozen=True, slots=True)
class AtRest:
    """The case: one row for each command, one column for each figure."""

    name: str = "at-rest"
    title: str = "At rest: what an idle process holds and uses"
    contestants: tuple[str, ...] = field(default=tuple(COMMANDS))

    def run(self, server: Server, *, is_quick: bool) -> Result:
        """Measure each command in turn."""
        span, count = (QUICK, 1) if is_quick else (FULL, 3)

        def once(name: str) -> Measured:
            return measure(server, COMMANDS[name], span)

        rounds = alternate(self.contestants, count, once)
        return Result(
            case=self.name,
            title=self.title,
            unit="seconds measured",
            headline="",
            base="",
            notes=(NOTE, *(goal.verdict(rounds) for goal in GOALS)),
            rounds=count,
            is_quick=is_quick,
            at=datetime.now(tz=UTC).isoformat(),
            machine=describe(server),
            sizes=dict.fromkeys(self.contestants, int(span.measure)),
            left_out={},
            samples=rounds.samples,
        )


CASES: Final = (AtRest(),)
