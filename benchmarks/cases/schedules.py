"""Schedules: seeding many, a tick with everything due, a tick with one in a hundred due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale

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
    cost = session.measure("tick").cost
    if session.ask_first("tick"):
        message = f"{session.contestant} left due manifests behind"
        raise AssertionError(message)
    return cost


DIRECT = "direct schedules"
BOTH = ("gandy schedules", DIRECT)

CASES = (
    Case(
        name="seeding",
        title="Seeding manifests",
        unit="manifests",
        contestants=BOTH,
        base=DIRECT,
        measure=seeding,
        full=Scale(rounds=5, size=100_000),
        quick=Scale(rounds=2, size=2_000),
    ),
    Case(
        name="tick-all-due",
        title="A tick with everything due",
        unit="manifests",
        contestants=BOTH,
        base=DIRECT,
        measure=all_due,
        full=Scale(rounds=5, size=10_000),
        quick=Scale(rounds=2, size=2_000),
    ),
    Case(
        name="tick-few-due",
        title="A tick with 1 % due",
        unit="manifests",
        contestants=BOTH,
        base=DIRECT,
        measure=few_due,
        headline="tick ms",
        full=Scale(rounds=5, size=100_000),
        quick=Scale(rounds=2, size=5_000),
    ),
)
