"""What a case is: contestants, a way to measure one of them once, and what to compare."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, Self

from benchmarks.contestants import CONTESTANTS
from benchmarks.environments import EnvironmentUnavailableError
from benchmarks.machine import describe
from benchmarks.process import ContestantError
from benchmarks.result import Result
from benchmarks.rounds import Measured, Rounds, alternate
from benchmarks.session import Session, open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.server import Server


SECONDS = "seconds"  # the unit of a case whose size is a time
FRAME = " |+-"  # what Python draws around a group of exceptions


class NotTimedError(ValueError):
    """The size of a case is no time, so it cannot last for a given one."""

    def __init__(self, case: str) -> None:
        super().__init__(f"case {case} does not take --seconds: its size is not a time")
        self.case = case


class Judged(Protocol):
    """What a case is held to."""

    def verdict(self, rounds: Rounds[str]) -> str:
        """One line: what was asked for, what came out."""


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
    goals: tuple[Judged, ...] = ()
    #: How many times fewer items a slow contestant gets, so that its rounds take seconds too.
    fewer: Mapping[str, int] = field(default_factory=dict)
    #: Contestants that a quick run can do without, since another case shows that they work.
    not_when_quick: tuple[str, ...] = ()

    def lasting(self, seconds: int) -> Self:
        """The same case, measured for so long; for those whose size is a time."""
        if self.unit != SECONDS:
            raise NotTimedError(self.name)
        full, quick = (replace(scale, size=seconds) for scale in (self.full, self.quick))
        return replace(self, full=full, quick=quick)

    def size_for(self, contestant: str, scale: Scale) -> int:
        """How many items this contestant gets a round."""
        return max(scale.size // self.fewer.get(contestant, 1), 1)

    def run(self, server: Server, *, is_quick: bool) -> Result:
        """Open every contestant, then alternate. A peer that fails is left out and named."""
        scale = self.quick if is_quick else self.full
        left_out: dict[str, str] = {}
        with ExitStack() as stack:
            sessions: dict[str, Session] = {}
            for name in self._taking_part(is_quick=is_quick):
                with excusing_peer(name, left_out):
                    session = stack.enter_context(open_session(server, name, self.workers))
                    if not is_quick:
                        self.measure(session, self.size_for(name, self.quick))
                    sessions[name] = session

            def once(name: str) -> Measured:
                if name not in left_out:
                    with excusing_peer(name, left_out):
                        return self.measure(sessions[name], self.size_for(name, scale))
                return {}

            rounds = alternate(tuple(sessions), scale.rounds, once)
        return self._result(rounds, is_quick=is_quick, left_out=left_out, machine=describe(server))

    def _taking_part(self, *, is_quick: bool) -> list[str]:
        return [name for name in self.contestants if not (is_quick and name in self.not_when_quick)]

    def _result(
        self, rounds: Rounds[str], *, is_quick: bool, left_out: Mapping[str, str], machine: Mapping[str, str]
    ) -> Result:
        scale = self.quick if is_quick else self.full
        return Result(
            case=self.name,
            title=self.title,
            unit=self.unit,
            headline=self.headline,
            base=self.base,
            notes=(*self.notes, *(goal.verdict(rounds) for goal in self.goals)),
            rounds=scale.rounds,
            is_quick=is_quick,
            at=datetime.now(tz=UTC).isoformat(),
            machine=machine,
            sizes={name: self.size_for(name, scale) for name in self._taking_part(is_quick=is_quick)},
            left_out=left_out,
            samples={name: each for name, each in rounds.samples.items() if name not in left_out},
        )


@contextmanager
def excusing_peer(name: str, left_out: dict[str, str]) -> Iterator[None]:
    """Note a peer's failure and go on; what is ours has no excuse."""
    try:
        yield
    except (ContestantError, EnvironmentUnavailableError, AssertionError) as error:
        if CONTESTANTS[name].environment is None:
            raise
        lines = [line.strip(FRAME) for line in str(error).splitlines()]
        left_out[name] = next(line for line in reversed([name, *lines]) if line)
