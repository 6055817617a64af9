"""What a case is: contestants, a way to measure one of them once, and what to compare."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.rounds import Measured, Rounds, alternate
from benchmarks.session import Session, open_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.server import Server


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: `full` for figures, `quick` to see that everything runs."""

    rounds: int
    size: int


@dataclass(frozen=True, slots=True)
class Case:
    """One question, asked of every contestant in turn."""

    name: str
    title: str
    unit: str
    contestants: tuple[str, ...]
    base: str
    measure: Callable[[Session, int], Measured]
    full: Scale
    quick: Scale
    headline: str = "per second"
    workers: int = 1
    notes: tuple[str, ...] = field(default=())

    def run(self, server: Server, scale: Scale) -> Rounds[str]:
        """Open every contestant, then alternate."""
        with ExitStack() as stack:
            sessions = {
                name: stack.enter_context(open_session(server, name, self.workers))
                for name in self.contestants
            }
            for session in sessions.values():
                self.measure(session, self.quick.size)
            return alternate(
                self.contestants, scale.rounds, lambda name: self.measure(sessions[name], scale.size)
            )
