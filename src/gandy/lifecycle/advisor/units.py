"""Does an epoch column hold what its unit says? Seconds read as milliseconds delete everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.lifecycle.database.instants import Kind, unit_problem
from gandy.lifecycle.database.sampling import sample
from gandy.lifecycle.selection.findings import Severity
from gandy.lifecycle.selection.walks import AgeWalk, InlineWatch, PartitionWalk

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from gandy.lifecycle.selection.resolved import Resolved


def advise_units(connection: Connection, resolved: Resolved) -> None:
    """Add a finding for every instant that is not what it is declared to be."""
    for walk in [*resolved.walks, resolved.watch]:
        if isinstance(walk, AgeWalk | InlineWatch):
            instant = walk.instant
        elif isinstance(walk, PartitionWalk):
            instant = walk.rule.column
        else:
            continue
        if walk.form.kind is Kind.NAIVE:
            resolved.note(Severity.WARNING, f"{instant} has no time zone; it is read as UTC")
        if walk.form.kind not in {Kind.SECONDS, Kind.MILLISECONDS}:
            continue
        problem = unit_problem(sample(connection, walk.table, instant), walk.form.kind)
        if problem is not None:
            resolved.note(Severity.WRONG, f"{instant} {problem}", field="unit")
            return
