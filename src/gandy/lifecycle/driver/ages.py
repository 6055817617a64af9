"""Sweeping a rule by age: what a crash or a budget left unfinished first, then a pass of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_

from gandy.lifecycle.driver.careful import CarefulLane
from gandy.lifecycle.driver.guarded import Fitting, Guard, GuardedLane
from gandy.lifecycle.driver.heavy import HeavyLane, may_go_in_parts
from gandy.lifecycle.driver.lanes import Lane, OrdinaryLane, Remember
from gandy.lifecycle.driver.outcome import RuleOutcome
from gandy.lifecycle.driver.pipelined import PipelinedLane
from gandy.lifecycle.driver.returns import Ceiling
from gandy.lifecycle.driver.rows import RowDriver
from gandy.lifecycle.driver.ties import Ties
from gandy.lifecycle.state.progress import Progress, RuleKey, RuleState
from gandy.lifecycle.state.quarantine import not_in_quarantine
from gandy.sweep import Budget, Ending, Pace, Patience, Throttle, drive, walk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import AgeWalk, Child, Selection

# Each row of a batch may take others along.
_LARGEST_WITH_CHILDREN = 1000
EVERY_POISON_ROW = Patience(set_aside=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeSweep:
    """One rule by age in one run."""

    shift: Shift
    walk: AgeWalk
    pace: Pace
    throttles: list[Throttle]
    quarantined: Sequence[Values]

    def run(self, state: RuleState | None, budget: Budget) -> RuleOutcome:
        """Go on where the last run stopped, then sweep what has died since."""
        outcome = RuleOutcome(table=self.walk.key.table, rule=self.walk.label)
        if state is not None and state.cutoff is not None:
            outcome = self._pass(outcome, budget, since=state.cutoff, after=state.cursor)
        if outcome.is_done:
            left = _left(budget, outcome)
            outcome = self._pass(outcome, left, since=self.shift.now, after=None)
        return self._climb(outcome, budget) if self._waits_for_itself() else outcome

    def _climb(self, outcome: RuleOutcome, budget: Budget) -> RuleOutcome:
        """A row that waited for one of its own table may go once that one is gone."""
        before = -1
        while outcome.is_done and outcome.rows > max(before, 0):
            before = outcome.rows
            outcome = self._pass(outcome, _left(budget, outcome), since=self.shift.now, after=None)
        return outcome

    def _waits_for_itself(self) -> bool:
        name = self.walk.table.name
        return any(
            reference.table == name.name and reference.schema in {None, name.schema}
            for reference in self.walk.rule.wait_for
        )

    def _pass(
        self,
        outcome: RuleOutcome,
        budget: Budget,
        *,
        since: datetime,
        after: Values | None,
        is_again: bool = False,
    ) -> RuleOutcome:
        selection = without(
            self.walk.frozen_at(since), self.walk.key, if_any=bool(self.quarantined or outcome.set_aside)
        )
        progress = Progress(self.walk.key, self.walk.shape)

        def remember(connection: Connection, end: Values) -> None:
            progress.advance(connection, cutoff=since, cursor=end)

        fitting = Fitting(self.pace.largest)
        guard = Guard(selection, self.shift.session.dialect.has_row_locks, fitting)
        ties = Ties(self.shift.session, selection)
        careful = CarefulLane(shift=self.shift, guard=guard, rule=self.walk.key, remember=remember, ties=ties)
        driver = RowDriver(
            shift=self.shift,
            lane=self._lane(guard, ties, progress, since=since, remember=remember),
            careful=careful,
            heavy=HeavyLane(guard, careful, is_final=may_go_in_parts(self.walk)),
            throttles=self.throttles,
        )
        pace = pace_for(selection.children, self.pace)
        ceiling = Ceiling(self.walk, selection, self.shift.session).counted(after)
        steps = walk(after, pace=pace, budget=ceiling.lowered(budget), patience=EVERY_POISON_ROW)
        result = drive(steps, driver.perform)
        ceiling.judge(result)
        if result.ending is Ending.EXHAUSTED and (after is not None or result.cursor is not None):
            with self.shift.session.writing() as connection:
                progress.finish_pass(connection)
        outcome = outcome.plus(result)
        if ties.has_missed and outcome.is_done and not is_again:
            return self._pass(outcome, _left(budget, outcome), since=since, after=None, is_again=True)
        return outcome

    def _lane(
        self, guard: Guard, ties: Ties, progress: Progress, *, since: datetime, remember: Remember
    ) -> Lane:
        """Two round trips a batch where the database allows it and the row alone decides."""
        if guard.selection.is_guarded or guard.selection.table.may_keep_rows:
            return GuardedLane(self.shift, guard, remember, ties=ties)
        if self.shift.session.dialect.has_pipeline:
            remembering = partial(progress.advancing, since)
            return PipelinedLane(self.shift, guard.selection, remembering, ties=ties)
        return OrdinaryLane(self.shift, guard.selection, remember, ties=ties)


def pace_for(children: Sequence[Child], pace: Pace) -> Pace:
    """The pace, with smaller batches where rows take others along."""
    if not children:
        return pace
    largest = min(pace.largest, _LARGEST_WITH_CHILDREN)
    return replace(pace, start=min(pace.start, largest), largest=largest)


def without(selection: Selection, rule: RuleKey, *, if_any: bool) -> Selection:
    """The same rows but for those in quarantine, which are asked for only if there are any."""
    if not if_any:
        return selection
    is_free = not_in_quarantine(selection.key, rule.scheduler, rule.table)
    return replace(selection, dead=and_(selection.dead, is_free))


def _left(budget: Budget, outcome: RuleOutcome) -> Budget:
    return Budget(
        rows=budget.rows_left(outcome.rows),
        time=None if budget.time is None else max(budget.time - outcome.elapsed, budget.time * 0),
    )
