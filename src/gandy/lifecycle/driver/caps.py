"""Sweeping a cap: key by key along an index, within a budget of pages that the next tick takes up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, select

from gandy.lifecycle.driver.ages import pace_for, without
from gandy.lifecycle.driver.lanes import OrdinaryLane
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
# Where the database does not count pages itself: what a key costs at most, and what a deleted row does.
_PAGES_PER_DESCENT = 4
_ENTRIES_PER_PAGE = 50
_PAGES_PER_BATCH = 16
_PAGES_PER_DELETE = 4


@dataclass(frozen=True, slots=True)
class _Key:
    """One key that was looked at, the newest row of it that is one too many, and what the look cost."""

    values: Values
    bound: Values | None
    pages: int


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
        reached = began_at = None if state is None else state.cursor
        spent = 0
        while self.pages is None or spent < self.pages:
            key = self._look(reached)
            if key is None and began_at is not None and self.pages is None:
                reached = began_at = None  # to the end: also the keys before the cursor of an earlier run
                continue
            if key is None:
                if state is not None and (state.cursor is not None or outcome.batches):
                    self._write(None)  # a batch writes the key that it reached
                return outcome
            spent += key.pages
            if key.bound is not None:
                result = self._trim(key.values, key.bound, budget=_left(budget, outcome), reached=reached)
                outcome = outcome.plus(result)
                spent += _PAGES_PER_BATCH * (result.batches + 1) + _PAGES_PER_DELETE * result.rows
                if not outcome.is_done:
                    return outcome
            reached = key.values
        self._remember(reached, began_at)
        return outcome

    def _look(self, reached: Values | None) -> _Key | None:
        with self.shift.session.reading() as connection:
            before = self.shift.session.dialect.pages_read(connection, self.walk.table.name)
            values = self._next_key(connection, reached)
            if values is None:
                return None
            bound = self._bound(connection, values)
            after_look = self.shift.session.dialect.pages_read(connection, self.walk.table.name)
        if before is None or after_look is None:
            pages = 2 * _PAGES_PER_DESCENT + (self.walk.rule.rows + 1) // _ENTRIES_PER_PAGE
        else:
            pages = after_look - before
        return _Key(values, bound, pages)

    def _next_key(self, connection: Connection, reached: Values | None) -> Values | None:
        per = self.walk.per
        if not per:
            return () if reached is None else None
        ahead = select(*per).where(after(per, reached)).order_by(*per).limit(1)
        found = connection.execute(ahead).one_or_none()
        return None if found is None else tuple(found)

    def _bound(self, connection: Connection, key: Values) -> Values | None:
        """The newest row of the key that is one too many."""
        order = self.walk.order
        newest_first = (
            select(*order)
            .where(equal(self.walk.per, key), order[0].is_not(None))
            .order_by(*(column.desc() for column in order))
        )
        found = connection.execute(newest_first.offset(self.walk.rule.rows).limit(1)).one_or_none()
        return None if found is None else tuple(found)

    def _trim(
        self, key: Values, bound: Values, *, budget: Budget, reached: Values | None
    ) -> SweepResult[Values]:
        order = self.walk.order
        beyond = and_(equal(self.walk.per, key), up_to(order, bound), *self.walk.conditions)
        selection = Selection(table=self.walk.table, dead=beyond, order=order, children=self.walk.children)
        progress = Progress(self.walk.key, self.walk.shape)

        def remember(connection: Connection, _end: Values) -> None:
            progress.advance(connection, cutoff=self.shift.now, cursor=reached)

        selection = without(selection, self.quarantined)
        driver = RowDriver(
            shift=self.shift,
            selection=selection,
            rule=self.walk.key,
            lane=OrdinaryLane(self.shift, selection, remember),
            remember=remember,
            throttles=self.throttles,
        )
        return drive(walk(None, pace=pace_for(selection, self.pace), budget=budget), driver.perform)

    def _remember(self, reached: Values | None, began_at: Values | None) -> None:
        """Write down the key reached, if that is news."""
        if reached != began_at:
            self._write(reached)

    def _write(self, reached: Values | None) -> None:
        progress = Progress(self.walk.key, self.walk.shape)
        with self.shift.session.writing() as connection:
            progress.advance(connection, cutoff=self.shift.now, cursor=reached)


def _left(budget: Budget, outcome: RuleOutcome) -> Budget:
    time_left = None if budget.time is None else budget.time - outcome.elapsed
    return Budget(rows=budget.rows_left(outcome.rows), time=time_left)
