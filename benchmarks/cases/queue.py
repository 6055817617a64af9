"""From enqueue to recorded completion: bulk enqueue, throughput, idle pickup."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale
from benchmarks.goals import Goal, Lead

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.session import Session


def enqueue(session: Session, jobs: int) -> Measured:
    """Bulk enqueue into an empty queue."""
    session.ask_first("reset")
    session.checkpoint()
    return session.measure("enqueue", jobs=jobs).cost.per(jobs)


def throughput(session: Session, jobs: int) -> Measured:
    """Work a full queue off; completion must be on record for every job."""
    session.ask_first("reset")
    session.checkpoint()
    session.ask_first("enqueue", jobs=jobs)
    for process in session.processes:
        process.call("ready")
    work = session.measure("work", everyone=True)
    completed = session.ask_first("completed")
    if completed != jobs:
        message = f"{session.contestant} recorded {completed} of {jobs} jobs"
        raise AssertionError(message)
    return work.cost.per(jobs)


def throughput_beside(session: Session, jobs: int) -> Measured:
    """The same, beside rows that should not be felt: 250 kept runs or 50 future entries for every job."""
    session.ask_first("fill", jobs=jobs)
    return throughput(session, jobs)


def beside_another(session: Session, jobs: int) -> Measured:
    """A full queue and then single jobs, beside 50 runs and 50 queued entries of another for each job."""
    figures = throughput_beside(session, jobs)
    return {**figures, **idle_pickup(session, max(jobs // JOBS_PER_PICKUP, 2))}


def idle_pickup(session: Session, samples: int) -> Measured:
    """From asking for one job on an idle system to the start of its handler."""
    session.ask_first("reset")
    taken = [seconds * 1000 for seconds in session.ask_first("latency", samples=samples)]
    cuts = statistics.quantiles(taken, n=100, method="inclusive")
    return {"p50 ms": cuts[49], "p99 ms": cuts[98], "max ms": max(taken)}


JOBS_PER_PICKUP = 200
QUICK = Scale(rounds=1, size=1_000)
PEERS = (
    "pgqueuer",
    "awa",
    "oban",
    "chancy",
    "APScheduler 3",
    "procrastinate",
    "dbos",
    "APScheduler 4",
    "django-ox",
)
#: APScheduler 3 allows one scheduler to a job store.
PEERS_OF_MANY = tuple(peer for peer in PEERS if peer != "APScheduler 3")
#: A round is long enough that opening connections and gathering speed do not count.
JOBS_TO_WORK = 40_000
FEWER_TO_WORK = {
    "awa": 2,
    "oban": 4,
    "chancy": 4,
    "APScheduler 3": 16,
    "procrastinate": 32,
    "dbos": 32,
    "APScheduler 4": 64,
    "django-ox": 64,
}
FEWER_TO_ENQUEUE = {
    "oban": 4,
    "chancy": 4,
    "APScheduler 3": 16,
    "dbos": 16,
    "APScheduler 4": 32,
    "django-ox": 4,
}
SHOWN_BY_THROUGHPUT_1 = tuple(peer for peer in PEERS if peer != "pgqueuer")
BESIDE_ANOTHER = "gandy beside another's"
OWN, RATE, FASTEST_KNOWN = "gandy", "per second", "pgqueuer"
GOALS_OF_ONE = (
    Goal(contestant=OWN, metric=RATE, at_least=0.85, than="t3m"),
    Goal(contestant=OWN, metric=RATE, at_least=2.2, than=FASTEST_KNOWN),
    Goal(contestant=OWN, metric="WAL bytes", at_most=1_150),
)
GOALS_OF_TWO = (Goal(contestant=OWN, metric=RATE, at_least=1.6, than=FASTEST_KNOWN),)
APSCHEDULER_3 = "APScheduler 3 has no queue: a job's row is gone when the job is handed to a thread."

CASES = (
    Case(
        name="enqueue",
        title="Bulk enqueue",
        unit="jobs",
        contestants=("t3m", "gandy", "t3m by COPY", "t1", *PEERS),
        base="t3m",
        measure=enqueue,
        fewer=FEWER_TO_ENQUEUE,
        not_when_quick=SHOWN_BY_THROUGHPUT_1,
        full=Scale(rounds=7, size=20_000),
        quick=QUICK,
        goals=(
            Goal(contestant=OWN, metric=RATE, at_least=1.3, than=FASTEST_KNOWN),
            Lead(contestant=OWN, metric=RATE, others=PEERS),
        ),
    ),
    *(
        Case(
            name=f"throughput-{workers}",
            title=f"No-op jobs, {workers} worker process{'es' if workers > 1 else ''}",
            unit="jobs",
            contestants=("t3m", "gandy", "t4", "t1", *peers),
            base="t3m",
            measure=throughput,
            fewer=FEWER_TO_WORK,
            full=Scale(rounds=7, size=JOBS_TO_WORK),
            quick=QUICK,
            workers=workers,
            notes=notes,
            goals=(*goals, Lead(contestant=OWN, metric=RATE, others=peers)),
            not_when_quick=SHOWN_BY_THROUGHPUT_1 if workers > 1 else (),
        )
        for workers, peers, notes, goals in (
            (1, PEERS, (APSCHEDULER_3,), GOALS_OF_ONE),
            (2, PEERS_OF_MANY, (), GOALS_OF_TWO),
        )
    ),
    Case(
        name="throughput-beside",
        title="No-op jobs beside 5,000,000 kept runs, and beside 1,000,000 future entries",
        unit="jobs",
        contestants=("gandy", "gandy beside kept runs", "gandy beside future entries"),
        base="gandy",
        measure=throughput_beside,
        full=Scale(rounds=9, size=20_000),
        quick=QUICK,
        notes=("Kept runs and future entries are in proportion to the jobs of a round.",),
        goals=tuple(
            Goal(contestant=name, metric=RATE, at_least=0.9, than=OWN)
            for name in ("gandy beside kept runs", "gandy beside future entries")
        ),
    ),
    Case(
        name="small-owner",
        title="A small application beside another's 1,000,000 runs and 1,000,000 queued entries",
        unit="jobs",
        contestants=(OWN, BESIDE_ANOTHER),
        base=OWN,
        measure=beside_another,
        full=Scale(rounds=7, size=20_000),
        quick=QUICK,
        notes=("The other's rows are in proportion to the jobs of a round; it has no worker.",),
        goals=(
            Goal(contestant=BESIDE_ANOTHER, metric=RATE, at_least=0.9, than=OWN),
            Goal(contestant=BESIDE_ANOTHER, metric="p50 ms", at_most=1.1, than=OWN),
        ),
    ),
    Case(
        name="throughput-sqlite",
        title="No-op jobs on SQLite, one process",
        unit="jobs",
        contestants=("direct SQLite", "gandy on SQLite"),
        base="direct SQLite",
        measure=throughput,
        full=Scale(rounds=9, size=10_000),
        quick=QUICK,
        notes=("The database is a file in a temporary folder; the PostgreSQL columns say nothing here.",),
        goals=(Goal(contestant="gandy on SQLite", metric=RATE, at_least=0.6, than="direct SQLite"),),
    ),
    Case(
        name="idle-pickup",
        title="Idle pickup",
        unit="jobs",
        contestants=("t3m", "gandy", *PEERS),
        base="t3m",
        measure=idle_pickup,
        headline="p50 ms",
        full=Scale(rounds=5, size=100),
        quick=Scale(rounds=1, size=20),
        notes=("t3m: LISTEN and a claim by hand.",),
        goals=(
            Goal(contestant=OWN, metric="p50 ms", at_most=1, than=FASTEST_KNOWN),
            Goal(contestant=OWN, metric="p99 ms", at_most=1, than=FASTEST_KNOWN),
            Lead(contestant=OWN, metric="p50 ms", others=PEERS),
        ),
    ),
)
