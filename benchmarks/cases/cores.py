"""Jobs that compute, in one worker process and in two: `gandy up` with and without `--workers`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from benchmarks.cores.measuring import MILLISECONDS, Span, measure
from benchmarks.goals import Goal
from benchmarks.machine import describe
from benchmarks.result import Result
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.server import Server

ONE, TWO = "up", "up --workers 2"
PROCESSES: Final = {ONE: 1, TWO: 2}
FULL: Final = Span(warm_up=3.0, window=20.0)
QUICK: Final = Span(warm_up=1.0, window=5.0)
GOAL: Final = Goal(contestant=TWO, metric="per second", at_least=1.8, than=ONE)
NOTE: Final = (
    f"Jobs of {MILLISECONDS} ms CPU time on the event loop, all services on. "
    "The database and the parent use the same cores."
)


@dataclass(frozen=True, slots=True)
class TwoWorkers:
    """The case: one row for each command."""

    name: str = "two-workers"
    title: str = "Jobs that compute, in one worker process and in two"
    contestants: tuple[str, ...] = field(default=tuple(PROCESSES))

    def run(self, server: Server, *, is_quick: bool) -> Result:
        """Measure each command in turn."""
        span, count = (QUICK, 1) if is_quick else (FULL, 5)

        def once(name: str) -> Measured:
            return measure(server, PROCESSES[name], span)

        rounds = alternate(self.contestants, count, once)
        return Result(
            case=self.name,
            title=self.title,
            unit="seconds",
            headline="per second",
            base=ONE,
            notes=(NOTE, GOAL.verdict(rounds)),
            rounds=count,
            is_quick=is_quick,
            at=datetime.now(tz=UTC).isoformat(),
            machine=describe(server),
            sizes=dict.fromkeys(self.contestants, int(span.window)),
            left_out={},
            samples=rounds.samples,
        )


CASES: Final = (TwoWorkers(),)
