"""Deleting the old half of an application's table, quietly and under an old snapshot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.session import Session

BATCHES = (500, 1_000, 5_000)


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


CASES = tuple(
    Case(
        name=f"lifecycle-{batch}{'-held' if is_held else ''}",
        title=f"Deleting old rows in batches of {batch:,}{' under a held snapshot' if is_held else ''}",
        unit="rows",
        contestants=("lifecycle", "limited loop", "limited loop, asynchronous", "single delete"),
        base="limited loop",
        measure=partial(deletion, batch=batch, is_held=is_held),
        full=Scale(rounds=3, size=1_000_000),
        quick=Scale(rounds=2, size=20_000),
    )
    for batch in BATCHES
    for is_held in (False, True)
)
