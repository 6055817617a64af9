"""Deleting the old half of an application's table, quietly and under an old snapshot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale
from benchmarks.goals import Goal

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.session import Session

BATCHES = (500, 1_000, 5_000)
ROWS_PER_SECOND = 200_000  # of a sweep, at the least; the writer goes on for so long


def deletion(session: Session, rows: int, *, batch: int, is_held: bool) -> Measured:
    """Delete exactly the old half; then clean up after it."""
    session.ask_first("fill", rows=rows)
    if is_held:
        session.ask_first("hold")
    session.checkpoint()
    work = session.measure("delete", batch=batch)
    left = session.ask_first("remaining")
    if left != rows:
        message = f"{session.contestant} left {left} rows where {rows} are kept"
        raise AssertionError(message)
    return {**work.cost.per(rows), **work.answers[0], "VACUUM ms": session.ask_first("vacuum") * 1000}


def writing(session: Session, rows: int) -> Measured:
    """Let a writer keep its rate while the old half goes."""
    session.ask_first("fill", rows=rows)
    session.checkpoint()
    figures: Measured = session.ask_first("write", rows=rows, seconds=max(3, rows // ROWS_PER_SECOND))
    return figures


def deletion_goals(batch: int, *, is_held: bool) -> tuple[Goal, ...]:
    """Three times the common loop where batches are small; under a held snapshot no slower at the end."""
    fast = Goal(contestant="lifecycle", metric="per second", at_least=3, than="limited loop")
    steady = Goal(contestant="lifecycle", metric="last tenth / first", at_most=1.5)
    return (*((fast,) if batch == BATCHES[0] else ()), *((steady,) if is_held else ()))


DELETIONS = tuple(
    Case(
        name=f"lifecycle-{batch}{'-held' if is_held else ''}",
        title=f"Deleting old rows in batches of {batch:,}{' under a held snapshot' if is_held else ''}",
        unit="rows",
        contestants=("lifecycle", "limited loop", "single delete"),
        base="limited loop",
        measure=partial(deletion, batch=batch, is_held=is_held),
        full=Scale(rounds=2, size=1_000_000),
        quick=Scale(rounds=1, size=20_000),
        goals=deletion_goals(batch, is_held=is_held),
    )
    for batch in BATCHES
    for is_held in (False, True)
)

WRITER = Case(
    name="lifecycle-writer",
    title="A writer of the same table at a fixed rate, with and without the sweep",
    unit="rows",
    contestants=("writer alone", "writer beside the sweep", "writer beside the loop"),
    base="writer alone",
    measure=writing,
    full=Scale(rounds=3, size=2_000_000),
    quick=Scale(rounds=1, size=100_000),
    headline="p99 ms",
    notes=("pgbench -R 500: a row inserted and a kept one changed. Latency from the instant it was due.",),
    goals=(Goal(contestant="writer beside the sweep", metric="p99 ms", at_most=2, than="writer alone"),),
)

TIES = Case(
    name="lifecycle-ties",
    title="Deleting old rows that all have one instant, in batches of 500",
    unit="rows",
    contestants=("lifecycle", "one instant", "one instant, key in the index"),
    base="lifecycle",
    measure=partial(deletion, batch=BATCHES[0], is_held=False),
    full=Scale(rounds=3, size=300_000),
    quick=Scale(rounds=1, size=20_000),
    goals=tuple(
        Goal(contestant=name, metric="per second", at_least=0.5, than="lifecycle")
        for name in ("one instant", "one instant, key in the index")
    ),
)

CASES = (*DELETIONS, TIES, WRITER)
