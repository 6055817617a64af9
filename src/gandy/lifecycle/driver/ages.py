"""Sweeping a rule by age: what a crash or a budget left unfinished first, then a pass of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_

from gandy.lifecycle.driver.lanes import Lane, OrdinaryLane, Remember
from gandy.lifecycle.driver.outcome import RuleOutcome
from gandy.lifecycle.driver.pipelined import PipelinedLane
from gandy.lifecycle.driver.rows import RowDriver
from gandy.lifecycle.selection.statements import Values, among
from gandy.lifecycle.state.progress import Progress, RuleState
from gandy.sweep import Budget, Ending, Pace, Throttle, drive, walk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.walks import AgeWalk, Selection

# Children are named by key in each statement, and a statement takes only so many values.
_LARGEST_WITH_CHILDREN = 1000


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
        return outcome

    def _pass(
        self, outcome: RuleOutcome, budget: Budget, *, since: datetime, after: Values | None
    ) -> RuleOutcome:
        selection = without(self.walk.frozen_at(since), self.quarantined)
        progress = Progress(self.walk.key, self.walk.shape)

        def remember(connection: Connection, end: Values) -> None:
            progress.advance(connection, cutoff=since, cursor=end)

        driver = RowDriver(
            shift=self.shift,
            selection=selection,
            rule=self.walk.key,
            lane=self._lane(selection, progress, since=since, remember=remember),
            remember=remember,
            throttles=self.throttles,
        )
        result = drive(walk(after, pace=pace_for(selection, self.pace), budget=budget), driver.perform)
        if result.ending is Ending.EXHAUSTED and (after is not None or result.cursor is not None):
            with self.shift.session.writing() as connection:
                progress.finish_pass(connection)
        return outcome.plus(result)

    def _lane(self, selection: Selection, progress: Progress, *, since: datetime, remember: Remember) -> Lane:
        """Two round trips a batch where the database allows it and no child has to be settled."""
        if self.shift.session.dialect.has_pipeline and not selection.children:
            return PipelinedLane(self.shift, selection, partial(progress.advancing, since))
        return OrdinaryLane(self.shift, selection, remember)


def pace_for(selection: Selection, pace: Pace) -> Pace:
    """The pace, slower where children are named one by one."""
    if not selection.children:
        return pace
    largest = min(pace.largest, _LARGEST_WITH_CHILDREN)
    return replace(pace, start=min(pace.start, largest), largest=largest)


def without(selection: Selection, quarantined: Sequence[Values]) -> Selection:
    """The same rows but for those in quarantine."""
    if not quarantined:
        return selection
    return replace(selection, dead=and_(selection.dead, ~among(selection.key, quarantined)))


def _left(budget: Budget, outcome: RuleOutcome) -> Budget:
    return Budget(
        rows=budget.rows_left(outcome.rows),
        time=None if budget.time is None else max(budget.time - outcome.elapsed, budget.time * 0),
    )
