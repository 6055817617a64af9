"""Gandy's maintenance of its own tables: how fast, how felt by workers, and whether anything grows."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.case import SECONDS, Case, Scale
from benchmarks.cases.queue import throughput
from benchmarks.goals import Goal

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.session import Session

BESIDE = "gandy beside expired runs"
CLEANING = "gandy removing them"
LOGS_PER_RUN = 3
HELD = "gandy under a snapshot"
JOBS_PER_SECOND_HELD, MOST_JOBS_HELD = 500, 50_000  # that find the rate
SOAK_RETENTION_SHARE = 10  # ten minutes with a retention of one; shorter runs in proportion


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


def throughput_while_cleaning(session: Session, jobs: int) -> Measured:
    """Work a full queue off beside expired runs, ten for every job, that are being removed or not."""
    session.ask_first("reset")
    session.ask_first("fill", jobs=jobs)
    return throughput(session, jobs)


@dataclass(slots=True)
class LatencyWhileCleaning:
    """From asking for a job to its start, at half the rate that a worker reached once, the same for all."""

    best: dict[int, float] = field(default_factory=dict)

    def __call__(self, session: Session, jobs: int) -> Measured:
        """Enqueue at that rate beside expired runs, that are being removed or not."""
        if jobs not in self.best:
            self.best[jobs] = throughput(session, jobs)["per second"]
        half = self.best[jobs] / 2
        session.ask_first("reset")
        session.ask_first("fill", jobs=jobs)
        session.checkpoint()
        taken = [seconds * 1000 for seconds in session.ask_first("paced", jobs=jobs, per_second=half)]
        cuts = statistics.quantiles(taken, n=100, method="inclusive")
        return {"p50 ms": cuts[49], "p99 ms": cuts[98], "max ms": max(taken), "jobs per second": half}


@dataclass(slots=True)
class HeldSnapshot:
    """At half the rate that the worker reached once, without a snapshot and under one."""

    best: dict[int, float] = field(default_factory=dict)

    def __call__(self, session: Session, seconds: int) -> Measured:
        """Hold a snapshot for so long, after a sixth of that without."""
        jobs = min(seconds * JOBS_PER_SECOND_HELD, MOST_JOBS_HELD)
        if jobs not in self.best:
            self.best[jobs] = throughput(session, jobs)["per second"]
        session.ask_first("reset")
        session.checkpoint()
        half, free = self.best[jobs] / 2, max(seconds / 6, 4)
        figures: Measured = session.ask_first("half_load", seconds=seconds, free=free, per_second=half)
        return {**figures, "asked per second": half}


def soak(session: Session, seconds: int) -> Measured:
    """Work at full speed for so long, with a tenth of it as retention."""
    session.ask_first("reset")
    answer: Measured = session.ask_first("soak", seconds=seconds, retention=seconds / SOAK_RETENTION_SHARE)
    return answer


CASES = (
    Case(
        name="cleanup",
        title="Removing expired runs, by Gandy's own cycle and by direct SQL",
        unit="runs",
        contestants=("direct deletion", "gandy by row", "partition drop", "gandy by day"),
        base="direct deletion",
        measure=removal,
        full=Scale(rounds=2, size=1_000_000),
        quick=Scale(rounds=1, size=5_000),
        notes=("Three log rows for each run, and as many runs that are kept.",),
        goals=(
            Goal(contestant="gandy by row", metric="per second", at_least=0.7, than="direct deletion"),
            Goal(contestant="gandy by day", metric="per second", at_least=0.7, than="direct deletion"),
        ),
    ),
    Case(
        name="cleanup-throughput",
        title="No-op jobs while expired runs are removed, and while they are not",
        unit="jobs",
        contestants=(BESIDE, CLEANING),
        base=BESIDE,
        measure=throughput_while_cleaning,
        full=Scale(rounds=7, size=50_000),
        quick=Scale(rounds=2, size=2_000),
        goals=(Goal(contestant=CLEANING, metric="per second", at_least=0.9, than=BESIDE),),
    ),
    Case(
        name="cleanup-latency",
        title="Pickup at half load while expired runs are removed, and while they are not",
        unit="jobs",
        contestants=(BESIDE, CLEANING),
        base=BESIDE,
        measure=LatencyWhileCleaning(),
        full=Scale(rounds=5, size=50_000),
        quick=Scale(rounds=2, size=2_000),
        headline="p99 ms",
        goals=(Goal(contestant=CLEANING, metric="p99 ms", at_most=1.5, than=BESIDE),),
    ),
    Case(
        name="soak",
        title="At full speed with a tenth of the time as retention: the last third beside the middle one",
        unit=SECONDS,
        contestants=(CLEANING,),
        base=CLEANING,
        measure=soak,
        full=Scale(rounds=1, size=600),
        quick=Scale(rounds=1, size=12),
        goals=(
            Goal(contestant=CLEANING, metric="throughput, last / middle", at_least=0.95),
            Goal(contestant=CLEANING, metric="size, last / middle", at_most=1.2),
            Goal(contestant=CLEANING, metric="dead tuples, last / middle", at_most=1.2),
        ),
    ),
    Case(
        name="held-snapshot",
        title="Half load while another session holds a snapshot, after a sixth of that time without",
        unit=SECONDS,
        contestants=(HELD,),
        base=HELD,
        measure=HeldSnapshot(),
        full=Scale(rounds=1, size=600),
        quick=Scale(rounds=1, size=12),
        notes=(
            "Throughputs are of the last third; dead tuples are those of the tables that every job changes.",
        ),
        goals=(
            Goal(contestant=HELD, metric="throughput, held / free", at_least=0.98),
            Goal(contestant=HELD, metric="dead tuples a job", at_most=0.05),
        ),
    ),
)
