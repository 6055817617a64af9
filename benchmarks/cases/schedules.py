"""Schedules: seeding many, a tick with everything due, a tick with one in a hundred due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale
from benchmarks.goals import Goal, Lead

if TYPE_CHECKING:
    from benchmarks.probe import Cost
    from benchmarks.rounds import Measured
    from benchmarks.session import Session

FEW = 100


def seeding(session: Session, manifests: int) -> Measured:
    """Seed manifests into an empty table."""
    session.ask_first("reset")
    session.checkpoint()
    return session.measure("seed", manifests=manifests).cost.per(manifests)


def all_due(session: Session, manifests: int) -> Measured:
    """Every manifest is due at once."""
    return _tick(session, manifests=manifests, due=manifests).per(manifests)


def few_due(session: Session, manifests: int) -> Measured:
    """One manifest in a hundred is due."""
    cost = _tick(session, manifests=manifests, due=manifests // FEW)
    return {"tick ms": cost.seconds * 1000, **cost.per(manifests // FEW)}


def _tick(session: Session, *, manifests: int, due: int) -> Cost:
    session.ask_first("reset")
    session.ask_first("seed", manifests=manifests)
    session.ask_first("make_due", manifests=due)
    session.checkpoint()
    work = session.measure("tick")
    again = session.ask_first("tick")
    if work.answers != (due,) or again:
        message = f"{session.contestant} queued {work.answers[0]} and then {again} of {due} due"
        raise AssertionError(message)
    return work.cost


DIRECT = "direct schedules"
OWN, RATE = "gandy schedules", "per second"
BOTH = (OWN, DIRECT)
SOON = (Goal(contestant=OWN, metric="tick ms", at_most=1.3, than=DIRECT),)
#: Those whose schedules can be let come due all at once; the README says who is missing and why.
PEERS = ("oban", "APScheduler 3", "procrastinate", "chancy", "pgqueuer", "APScheduler 4", "awa", "django-ox")
FEWER_DUE = {
    "oban": 2,
    "APScheduler 3": 5,
    "procrastinate": 10,
    "chancy": 4,
    "pgqueuer": 2,
    "APScheduler 4": 20,
    "awa": 5,
    "django-ox": 20,
}

CASES = (
    Case(
        name="seeding",
        title="Seeding manifests",
        unit="manifests",
        contestants=BOTH,
        base=DIRECT,
        measure=seeding,
        goals=(Goal(contestant=OWN, metric=RATE, at_least=0.6, than=DIRECT),),
        full=Scale(rounds=5, size=100_000),
        quick=Scale(rounds=1, size=2_000),
    ),
    Case(
        name="tick-all-due",
        title="Schedules all due at once",
        unit="schedules",
        contestants=(*BOTH, *PEERS),
        base=DIRECT,
        measure=all_due,
        fewer=FEWER_DUE,
        notes=("APScheduler 3 and pgqueuer run what is due themselves, the others queue it.",),
        goals=(
            Goal(contestant=OWN, metric=RATE, at_least=0.8, than=DIRECT),
            Lead(contestant=OWN, metric=RATE, others=PEERS),
        ),
        full=Scale(rounds=5, size=10_000),
        quick=Scale(rounds=1, size=1_000),
    ),
    Case(
        name="tick-few-due",
        title="A tick with 1 % due",
        unit="manifests",
        contestants=BOTH,
        base=DIRECT,
        measure=few_due,
        headline="tick ms",
        goals=SOON,
        full=Scale(rounds=11, size=100_000),
        quick=Scale(rounds=1, size=5_000),
    ),
    Case(
        name="tick-few-due-of-a-million",
        title="A tick with 1 % of a million due",
        unit="manifests",
        contestants=BOTH,
        base=DIRECT,
        measure=few_due,
        headline="tick ms",
        goals=SOON,
        full=Scale(rounds=2, size=1_000_000),
        quick=Scale(rounds=1, size=10_000),
    ),
)
