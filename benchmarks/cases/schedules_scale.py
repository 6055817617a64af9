"""The cost of a cycle is what is due: the same 200 beside more and more that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale
from benchmarks.goals import Goal

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.session import Session

DUE = 200
#: Manifests and finished runs beside what is due, by the name of the contestant.
SIZES = {
    "10,000 manifests": (10_000, 0),
    "100,000 manifests": (100_000, 0),
    "1,000,000 manifests": (1_000_000, 0),
    "1,000,000 manifests, 5,000,000 runs": (1_000_000, 5_000_000),
}
SMALLEST = "10,000 manifests"
ON_SQLITE = {
    "SQLite, 1,000 manifests": (1_000, 0),
    "SQLite, 10,000 manifests": (10_000, 0),
    "SQLite, 100,000 manifests": (100_000, 0),
}
SMALLEST_ON_SQLITE = "SQLite, 1,000 manifests"
_filled: set[tuple[str, int]] = set()


def same_due(session: Session, part: int) -> Measured:
    """A cycle with 200 due; `part` is the percentage of the full sizes."""
    if (session.contestant, part) not in _filled:
        manifests, runs = {**SIZES, **ON_SQLITE}[session.contestant]
        session.ask_first("fill", manifests=max(manifests * part // 100, DUE), runs=runs * part // 100)
        _filled.add((session.contestant, part))
    session.ask_first("make_some_due", manifests=DUE)
    session.checkpoint()
    work = session.measure("tick")
    if work.answers != (DUE,):
        message = f"{session.contestant}: {work.answers} were queued instead of {DUE}"
        raise AssertionError(message)
    return {"cycle ms": work.cost.seconds * 1000, **work.cost.per(DUE)}


CASES = (
    Case(
        name="cycle-scale",
        title="A cycle with 200 due, beside what is not",
        unit="manifests",
        contestants=tuple(SIZES),
        base=SMALLEST,
        measure=same_due,
        headline="cycle ms",
        goals=tuple(
            Goal(contestant=name, metric="cycle ms", at_most=1.5, than=SMALLEST)
            for name in SIZES
            if name != SMALLEST
        ),
        full=Scale(rounds=15, size=100),
        quick=Scale(rounds=3, size=1),
    ),
    Case(
        name="cycle-scale-sqlite",
        title="A cycle with 200 due on SQLite, beside what is not",
        unit="manifests",
        contestants=tuple(ON_SQLITE),
        base=SMALLEST_ON_SQLITE,
        measure=same_due,
        headline="cycle ms",
        goals=(
            Goal(
                contestant="SQLite, 100,000 manifests",
                metric="cycle ms",
                at_most=1.5,
                than=SMALLEST_ON_SQLITE,
            ),
        ),
        full=Scale(rounds=15, size=100),
        quick=Scale(rounds=3, size=1),
    ),
)
