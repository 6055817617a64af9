"""Rows that a DELETE trigger inserts again: each batch looks for its own, and no pass goes on without end.

A trigger may give the row another key or instant, so that the walk meets it again further on. Such a pass
would never end: it stops once it has deleted far more rows than were dead when it began.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import func, literal, literal_column, select

from gandy.errors import RuleRefusedError
from gandy.lifecycle.driver.levels import RowKeptError
from gandy.lifecycle.selection.statements import after, count_up_to, in_range
from gandy.sweep import Ending

if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy import Connection, Select

    from gandy.lifecycle.database.target import Session
    from gandy.lifecycle.driver.ties import Stretch
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Selection
    from gandy.sweep import Budget, SweepResult

_SLACK = 1_000  # rows that others may add meanwhile, beside as many as there were
_ENDLESS = (
    "{rows:,} rows were deleted, and as many are dead as before: a trigger may insert a row that is dead "
    "already whenever one is deleted; it fires: {triggers}"
)


def must_stay_gone(connection: Connection, batch: Stretch, *, has_locks: bool) -> None:
    """Raise where a row of the batch is there again right after its delete."""
    table = batch.selection.table
    if table.standing.delete_triggers and connection.execute(came_back(batch, has_locks=has_locks)).first():
        raise RowKeptError.again(table)


def came_back(batch: Stretch, *, has_locks: bool) -> Select[Any]:
    """A dead row in the place of the batch; beside other writers only one that this transaction wrote."""
    found = select(literal(1)).select_from(batch.selection.table.clause).limit(1)
    if not has_locks:
        return found.where(batch.are_dead)
    is_mine = func.age(literal_column("xmin")) <= 0
    return found.where(in_range(batch.selection, batch.after, batch.end), is_mine)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How many rows one pass may delete where triggers fire; None where nothing can come back."""

    walk: AgeWalk | CapWalk
    selection: Selection
    session: Session
    rows: int | None = None

    def counted(self, cursor: Values | None) -> Ceiling:
        """The ceiling of a pass from the cursor, where the table has a DELETE trigger."""
        if not self.walk.table.standing.delete_triggers:
            return self
        ahead = select(func.count()).select_from(self.walk.table.clause)
        ahead = ahead.where(after(self.selection.order, cursor), self.selection.dead)
        with self.session.reading() as connection:
            return replace(self, rows=2 * connection.execute(ahead).scalar_one() + _SLACK)

    def lowered(self, budget: Budget) -> Budget:
        """The budget within the ceiling."""
        if self.rows is None or (budget.rows is not None and budget.rows <= self.rows):
            return budget
        return replace(budget, rows=self.rows)

    def judge(self, result: SweepResult[Values]) -> None:
        """Raise where the pass has reached the ceiling, or left as many rows as it took."""
        if self.rows is None or not result.rows:
            return
        if result.rows >= self.rows or (result.ending is Ending.EXHAUSTED and self._is_full_again(result)):
            triggers = ", ".join(trigger.name for trigger in self.walk.table.standing.delete_triggers)
            reason = _ENDLESS.format(rows=result.rows, triggers=triggers)
            raise RuleRefusedError(self.walk.key.table, self.walk.label, reason)

    def _is_full_again(self, result: SweepResult[Values]) -> bool:
        """Rows that were set aside or passed over are dead too."""
        most = result.rows + result.set_aside + result.passed_over
        with self.session.reading() as connection:
            return bool(connection.execute(count_up_to(self.selection, most)).scalar_one() >= most)
