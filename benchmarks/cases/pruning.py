"""Removing finished jobs that are old, beside as many that are not: Gandy and the peers that prune."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale
from benchmarks.goals import Lead

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.session import Session


def pruning(session: Session, jobs: int) -> Measured:
    """Remove the old half; exactly that half."""
    session.ask_first("fill", runs=jobs)
    session.checkpoint()
    work = session.measure("delete")
    left = session.ask_first("remaining")[0]
    if left != jobs:
        message = f"{session.contestant} left {left} jobs where {jobs} are kept"
        raise AssertionError(message)
    return {**work.cost.per(jobs), "longest ms": max(work.answers) * 1000}


OWN = ("gandy by row", "gandy by day")
PEERS = ("oban", "chancy", "procrastinate", "django-ox")

CASES = (
    Case(
        name="pruning",
        title="Removing finished jobs that are old",
        unit="jobs",
        contestants=("direct deletion", *OWN, *PEERS),
        base="direct deletion",
        measure=pruning,
        full=Scale(rounds=3, size=200_000),
        quick=Scale(rounds=1, size=4_000),
        goals=tuple(Lead(contestant=name, metric="per second", others=PEERS) for name in OWN),
        notes=(
            "As many are kept. Three log rows (direct SQL, Gandy) or events (procrastinate) go with each.",
            "oban and chancy prune one batch a minute (20,000 and 10,000 jobs); here batch follows batch.",
        ),
    ),
)
