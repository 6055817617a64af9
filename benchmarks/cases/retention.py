"""Retention: expired runs with three log rows each, beside as many that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.session import Session

LOGS_PER_RUN = 3


def removal(session: Session, runs: int) -> Measured:
    """Remove the expired half; exactly that half."""
    session.ask_first("fill", runs=runs)
    session.checkpoint()
    work = session.measure("delete")
    left = session.ask_first("remaining")
    if left != [runs, runs * LOGS_PER_RUN]:
        message = f"{session.contestant} left {left} rows of {runs} kept runs"
        raise AssertionError(message)
    return {**work.cost.per(runs), "longest statement group ms": max(work.answers) * 1000}


CASES = (
    Case(
        name="retention",
        title="Removing expired runs",
        unit="runs",
        contestants=("direct deletion", "partition drop"),
        base="direct deletion",
        measure=removal,
        full=Scale(rounds=3, size=1_000_000),
        quick=Scale(rounds=2, size=5_000),
    ),
)
