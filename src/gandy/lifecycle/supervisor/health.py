"""Lag, backlog and rates: whether a rule keeps up with what arrives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.lifecycle.database.instants import read_instant
from gandy.lifecycle.driver.ages import without
from gandy.lifecycle.selection.foresight import oldest_instant
from gandy.lifecycle.selection.statements import Values, count_up_to
from gandy.lifecycle.state.progress import Pace, Progress, RuleState
from gandy.lifecycle.supervisor.report import Health

if TYPE_CHECKING:
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.driver.outcome import RuleOutcome
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.walks import AgeWalk

COUNTED_BACKLOG = 100_000
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """Measures one rule by age after its sweep."""

    shift: Shift
    contract: Contract
    walk: AgeWalk
    quarantined: list[Values]

    def measure(self, state: RuleState | None, outcome: RuleOutcome) -> Health:
        """What is overdue now; written down only where there is news."""
        lag, backlog = self._left()
        before = state.backlog if state is not None else 0
        arriving = self._per_second(state, outcome.rows + backlog - before)
        if outcome.rows or backlog or before:
            removed = self._per_second(state, outcome.rows)
            pace = Pace(lag.total_seconds(), _per_hour(arriving), _per_hour(removed))
            with self.shift.session.writing() as connection:
                Progress(self.walk.key, self.walk.shape).measure(
                    connection, backlog=backlog, measured_at=self.shift.now, rows=outcome.rows, pace=pace
                )
        return Health(
            table=self.walk.key.table,
            rule=self.walk.label,
            lag=lag,
            backlog=backlog,
            arriving_per_second=arriving,
            draining_per_second=self._draining(outcome),
        )

    def _left(self) -> tuple[timedelta, int]:
        selection = without(self.walk.frozen_at(self.shift.now), self.walk.key, if_any=bool(self.quarantined))
        with self.shift.session.reading() as connection:
            oldest = connection.execute(oldest_instant(selection, self.walk.form)).one_or_none()
            if oldest is None:
                return timedelta(0), 0
            backlog = int(connection.execute(count_up_to(selection, COUNTED_BACKLOG)).scalar_one())
        at = read_instant(oldest[0], self.walk.form)
        due = self.shift.now if at is None else at + self.walk.keep_for
        return max(self.shift.now - due, timedelta(0)), backlog

    def _per_second(self, state: RuleState | None, rows: int) -> float | None:
        """Spread rows over the time since the last tick that had news."""
        if state is None or state.measured_at is None or state.measured_at >= self.shift.now:
            return None
        return max(0, rows) / (self.shift.now - state.measured_at).total_seconds()

    def _draining(self, outcome: RuleOutcome) -> float | None:
        """What the rule could remove per second of wall clock, given its budget and how often it runs."""
        if not outcome.rows or not outcome.elapsed:
            return None
        budget, every = self.contract.budget, self.contract.interval
        share = 1.0 if budget.time is None else min(1.0, budget.time / every)
        speed = outcome.rows / outcome.elapsed.total_seconds() * share
        return speed if budget.rows is None else min(speed, budget.rows / every.total_seconds())


def _per_hour(per_second: float | None) -> float | None:
    return None if per_second is None else per_second * _HOUR
