"""A first run or a shortened retention that would remove most of a large table asks a person first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, case, func, select

from gandy.lifecycle.advisor.indexes import LARGE, IndexAdvisor
from gandy.lifecycle.contract.rules import Expires
from gandy.lifecycle.driver.partitions import dead_partitions
from gandy.lifecycle.selection.statements import count_up_to
from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, PartitionWalk, Walk
from gandy.lifecycle.supervisor.report import Held

if TYPE_CHECKING:
    from gandy.lifecycle.database.facts import TableFacts
    from gandy.lifecycle.state.progress import RuleState

Confirm = Callable[[Held], bool]

# Up to here a table is counted; beyond, the planner's estimate is near enough for "more than half".
_COUNTED = 1_000_000


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Judges whether a walk needs a person's word."""

    advisor: IndexAdvisor

    def needed(self, walk: Walk, state: RuleState | None) -> Held | None:
        """What a person would agree to; None where nobody is asked."""
        if isinstance(walk.rule, Expires) or not is_new(walk, state):
            return None
        connection = self.advisor.connection
        if self.advisor.row_count(walk.table) <= LARGE // 2:
            return None
        total = self._total(connection, walk.table)
        if total <= LARGE:
            return None
        rows = self._dead(connection, walk, total)
        if rows * 2 <= total:
            return None
        return Held(table=walk.key.table, rule=walk.label, rows=rows, of=total)

    def _total(self, connection: Connection, table: TableFacts) -> int:
        estimate = self.advisor.row_count(table)
        if estimate > _COUNTED:
            return estimate
        return int(connection.execute(select(func.count()).select_from(table.clause)).scalar_one())

    def _dead(self, connection: Connection, walk: Walk, total: int) -> int:
        match walk:
            case AgeWalk():
                selection = walk.frozen_at(self.advisor.now)
                return int(connection.execute(count_up_to(selection, total)).scalar_one())
            case CapWalk():
                return rows_beyond(connection, walk)
            case PartitionWalk():
                dead = dead_partitions(connection, self.advisor.dialect, walk, now=self.advisor.now)
                return sum(partition.rows for partition in dead)


def is_new(walk: Walk, state: RuleState | None) -> bool:
    """Whether the rule runs for the first time, or keeps less than was agreed to."""
    return state is None or state.accepted is None or walk.retention < state.accepted


def rows_beyond(connection: Connection, walk: CapWalk) -> int:
    """How many rows lie beyond the newest N of their key."""
    per_key = select(func.count().label("rows")).select_from(walk.table.clause).group_by(*walk.per).subquery()
    kept = walk.rule.rows
    excess = func.sum(case((per_key.c.rows > kept, per_key.c.rows - kept), else_=0))
    return int(connection.execute(select(excess)).scalar_one() or 0)
