"""Sweeping a cap: key by key along an index, within a budget of pages that the next tick takes up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, select

from gandy.lifecycle.driver.ages import pace_for, without
from gandy.lifecycle.driver.outcome import RuleOutcome
from gandy.lifecycle.driver.rows import RowDriver
from gandy.lifecycle.selection.statements import Values, after, equal, up_to
from gandy.lifecycle.selection.walks import CapWalk, Selection
from gandy.lifecycle.state.progress import Progress, RuleState
from gandy.sweep import Budget, Pace, SweepResult, Throttle, drive, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.lifecycle.driver.shift import Shift

PAGES_PER_TICK = 2_000
_PAGES_PER_DESCENT = 4
_ENTRIES_PER_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CapSweep:
    """One cap in one run."""

    shift: Shift
    walk: CapWalk
    pace: Pace
    throttles: list[Throttle]
    quarantined: Sequence[Values]
    pages: int | None = PAGES_PER_TICK

    def run(self, state: RuleState | None, budget: Budget) -> RuleOutcome:
        """Look at keys in order until the pages or the budget are used up."""
        outcome = RuleOutcome(table=self.walk.key.table, rule=self.walk.label)
        reached = None if state is None else state.cursor
        began_at, spent = reached, 0
        while self.pages is None or spent < self.pages:
            key = self._next_key(reached)
            spent += _PAGES_PER_DESCENT
            if key is None:
                self._remember(None, began_at)
                return outcome
            bound = self._bound(key)
            spent += _PAGES_PER_DESCENT + (self.walk.rule.rows + 1) // _ENTRIES_PER_PAGE
            if bound is not None:
                outcome = outcome.plus(self._trim(key, bound, budget=_left(budget, outcome), reached=reached))
                if not outcome.is_done:
                    return outcome
            reached = key
        self._remember(reached, began_at)
        return outcome

    def _next_key(self, reached: Values | None) -> Values | None:
        per = self.walk.per
        if not per:
            return () if reached is None else None
        with self.shift.session.reading() as connection:
            found = connection.execute(
                select(*per).where(after(per, reached)).order_by(*per).limit(1)
            ).one_or_none()
        return None if found is None else tuple(found)

    def _bound(self, key: Values) -> Values | None:
        """The newest row of the key that is one too many."""
        order = self.walk.order
        newest_first = (
            select(*order)
            .where(equal(self.walk.per, key), order[0].is_not(None))
            .order_by(*(column.desc() for column in order))
        )
        with self.shift.session.reading() as connection:
            found = connection.execute(newest_first.offset(self.walk.rule.rows).limit(1)).one_or_none()
        return None if found is None else tuple(found)

    def _trim(
        self, key: Values, bound: Values, *, budget: Budget, reached: Values | None
    ) -> SweepResult[Values]:
        order = self.walk.order
        beyond = and_(equal(self.walk.per, key), up_to(order, bound), *self.walk.conditions)
        selection = Selection(table=self.walk.table, dead=beyond, order=order, children=self.walk.children)
        progress = Progress(self.walk.key, self.walk.shape)

        def remember(connection: Connection, _cursor: Values, rows: int) -> None:
            progress.advance(connection, cutoff=self.shift.now, cursor=reached, rows=rows)

        driver = RowDriver(
            shift=self.shift,
            selection=without(selection, self.quarantined),
            rule=self.walk.key,
            remember=remember,
            throttles=self.throttles,
        )
        return drive(walk(None, pace=pace_for(selection, self.pace), budget=budget), driver.perform)

    def _remember(self, reached: Values | None, began_at: Values | None) -> None:
        """Write down the key reached, if that is news."""
        if reached == began_at:
            return
        progress = Progress(self.walk.key, self.walk.shape)
        with self.shift.session.writing() as connection:
            progress.advance(connection, cutoff=self.shift.now, cursor=reached, rows=0)


def _left(budget: Budget, outcome: RuleOutcome) -> Budget:
    time_left = None if budget.time is None else budget.time - outcome.elapsed
    return Budget(rows=budget.rows_left(outcome.rows), time=time_left)
