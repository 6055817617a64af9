"""Run one contract once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, assert_never

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from gandy.errors import GandyError, RowsStuckError, RuleRefusedError, SweepLeaseLostError
from gandy.lifecycle.advisor.indexes import IndexAdvisor
from gandy.lifecycle.advisor.survey import sweep_order
from gandy.lifecycle.database.failures import said, unexpected
from gandy.lifecycle.database.instants import read_instant
from gandy.lifecycle.driver.ages import AgeSweep, without
from gandy.lifecycle.driver.caps import CapSweep
from gandy.lifecycle.driver.partitions import PartitionSweep
from gandy.lifecycle.driver.rows import GroundsChangedError, RuleOutcome, grounds_of
from gandy.lifecycle.selection.findings import Severity
from gandy.lifecycle.selection.foresight import oldest_instant
from gandy.lifecycle.selection.resolve import Resolved
from gandy.lifecycle.selection.statements import Values, count_up_to
from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, InlineWatch, PartitionWalk, Walk
from gandy.lifecycle.state.progress import RememberedPace, RuleKey, RuleState, SweepProgress
from gandy.lifecycle.supervisor import report as announce
from gandy.lifecycle.supervisor.confirmation import (
    Agreement,
    Confirm,
    Confirmation,
    agreement_of,
    all_walks,
    is_new,
    is_waiting,
)
from gandy.lifecycle.supervisor.report import ContractReport, Health, Held, Overdue, RuleFailure, Unfinished
from gandy.sweep import Budget, SweepEnding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gandy.lifecycle.advisor.survey import Survey
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.supervisor.report import SweepMetrics


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
        """Measure the overdue rows; store the result only if something changed."""
        lag, backlog = self._left()
        before = state.backlog if state is not None else 0
        arriving = self._per_second(state, outcome.rows + backlog - before)
        if outcome.rows or backlog or before:
            removed = self._per_second(state, outcome.rows)
            pace = RememberedPace(lag.total_seconds(), _per_hour(arriving), _per_hour(removed))
            with self.shift.session.writing() as connection:
                SweepProgress(self.walk.key, self.walk.shape).measure(
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
        """Divide rows by the time since the last stored measurement."""
        if state is None or state.measured_at is None or state.measured_at >= self.shift.now:
            return None
        return max(0, rows) / (self.shift.now - state.measured_at).total_seconds()

    def _draining(self, outcome: RuleOutcome) -> float | None:
        """Return how many rows per second the rule could delete with its budget and interval."""
        if not outcome.rows or not outcome.elapsed:
            return None
        budget, every = self.contract.budget, self.contract.interval
        share = 1.0 if budget.time is None else min(1.0, budget.time / every)
        speed = outcome.rows / outcome.elapsed.total_seconds() * share
        return speed if budget.rows is None else min(speed, budget.rows / every.total_seconds())


def _per_hour(per_second: float | None) -> float | None:
    return None if per_second is None else per_second * _HOUR


_Task = tuple[Resolved, Walk]
_SPENT = {SweepEnding.ROWS_SPENT: "rows", SweepEnding.TIME_SPENT: "time"}
_MOST_IN_QUARANTINE = 100_000  # the state must be bounded too
_FULL = (
    f"{_MOST_IN_QUARANTINE:,} rows of the table are in quarantine; find out why, then: "
    "gandy lifecycle quarantine --release"
)


@dataclass(slots=True, kw_only=True)
class ContractRun:
    """Runs the rules of one survey and fills the report."""

    shift: Shift
    survey: Survey
    states: dict[RuleKey, RuleState]
    quarantine: dict[str, list[Values]]
    report: ContractReport
    metrics: SweepMetrics
    confirm: Confirm
    pages: int | None
    is_limited: bool
    finished: Callable[[RuleOutcome], None]
    outcomes: dict[RuleKey, RuleOutcome] = field(default_factory=dict)
    confirmation: Confirmation | None = None

    def run(self, only: str | None) -> None:
        """Sweep every rule, children first; unused budget goes to rules that need more."""
        rules = list(self._ordered(only))
        self._note(rules)
        tasks = [task for rule in rules for task in self._tasks(rule)]
        self._round(tasks)
        self._round([task for task in tasks if self._is_cut_short(task)])
        for rule, walk in tasks:
            self._guard(rule, partial(self._conclude, walk))
        for rule in rules:
            if rule.watch is not None and not rule.is_refused:
                self._guard(rule, partial(self._watch, rule.watch))

    def _ordered(self, only: str | None) -> Iterator[Resolved]:
        for table in sweep_order(self.survey.contract.tables, self.survey.schema.default_schema):
            if only is None or only in {table.label, table.name}:
                yield from (rule for rule in self.survey.rules if rule.declared is table)

    def _note(self, rules: list[Resolved]) -> None:
        for rule in rules:
            for finding in rule.findings:
                if finding.severity is Severity.WARNING:
                    self.report.warnings.append(finding)
            if rule.is_refused:
                reasons = [f for f in rule.findings if f.severity.stops]
                self._fail(rule, "; ".join(_reason(f.message, f.remedy) for f in reasons))

    def _tasks(self, rule: Resolved) -> Iterator[_Task]:
        if rule.is_refused:
            return
        for walk in rule.walks:
            if not is_waiting(walk) and self._guard(rule, partial(self._is_agreed, walk)):
                yield rule, walk

    def _round(self, tasks: list[_Task]) -> None:
        """Give each task an even share of the remaining budget; unused budget goes to the next task."""
        for index, (rule, walk) in enumerate(tasks):
            if self.shift.is_stopping():
                continue
            share = self._share(len(tasks) - index)
            if share.rows == 0:
                unasked = RuleOutcome(table=walk.key.table, rule=walk.label, ending=SweepEnding.ROWS_SPENT)
                self.outcomes.setdefault(walk.key, unasked)
                continue
            self._guard(rule, partial(self._sweep, rule, walk, share))

    def _share(self, among: int) -> Budget:
        budget = self.survey.contract.budget
        rows = sum(outcome.rows for outcome in self.outcomes.values())
        spent = sum((outcome.elapsed for outcome in self.outcomes.values()), timedelta(0))
        left = budget.rows_left(rows)
        return Budget(
            rows=None if left is None else -(-left // among),
            time=None if budget.time is None else max(budget.time - spent, timedelta(0)) / among,
        )

    def _is_cut_short(self, task: _Task) -> bool:
        outcome = self.outcomes.get(task[1].key)
        return outcome is not None and outcome.ending in _SPENT

    def _sweep(self, rule: Resolved, walk: Walk, budget: Budget) -> bool:
        before = self.outcomes.get(walk.key)
        shift = self._shift_for(walk)
        outcome = self._drive(shift, rule, walk, budget=budget)
        if before is not None:
            outcome = outcome.after(before)
        self.outcomes[walk.key] = outcome
        if shift.grounds.have_changed:
            raise GroundsChangedError
        if outcome.set_aside:  # later sweeps of this run must exclude them too
            self.quarantine.setdefault(walk.key.table, [()])
        if isinstance(walk, PartitionWalk) and outcome.reason is not None:
            raise RuleRefusedError(walk.key.table, walk.label, outcome.reason)
        if outcome.ending is SweepEnding.POISONED:
            raise RowsStuckError(
                walk.key.table, walk.label, rows=outcome.set_aside, first_error=outcome.reason or ""
            )
        return True

    def _shift_for(self, walk: Walk) -> Shift:
        seen = self.survey
        grounds = grounds_of(walk, seen.schema, self.shift.session.dialect, holds=seen.recorded)
        return replace(self.shift, grounds=grounds)

    def _drive(self, shift: Shift, rule: Resolved, walk: Walk, *, budget: Budget) -> RuleOutcome:
        throttles = shift.throttles(rule.declared.throttle, walk.table.name)
        pace = self.survey.contract.batch
        poison = self.quarantine.get(walk.key.table, [])
        if len(poison) >= _MOST_IN_QUARANTINE:
            raise RuleRefusedError(walk.key.table, walk.label, _FULL)
        state = self._state(walk)
        match walk:
            case AgeWalk():
                ages = AgeSweep(shift=shift, walk=walk, pace=pace, throttles=throttles, quarantined=poison)
                return ages.run(state, budget)
            case CapWalk():
                caps = CapSweep(
                    shift=shift,
                    walk=walk,
                    pace=pace,
                    throttles=throttles,
                    quarantined=poison,
                    pages=self.pages,
                )
                return caps.run(state, budget)
            case PartitionWalk():
                return PartitionSweep(shift=shift, walk=walk, throttles=throttles).run()
            case _:
                assert_never(walk)

    def _state(self, walk: Walk) -> RuleState | None:
        """Return the state as read at the start, or as an earlier round of this run stored it."""
        if walk.key not in self.outcomes:
            return self.states.get(walk.key)
        with self.shift.session.reading() as connection:
            return SweepProgress(walk.key, walk.shape).read(connection)

    def _is_agreed(self, walk: Walk) -> bool:
        """Ask for confirmation if needed, and store the agreement."""
        progress = SweepProgress(walk.key, walk.shape)
        state = self.states.get(walk.key)
        agreement = agreement_of(walk, self.survey.contracts, self.survey.schema)
        is_reshaped = state is not None and state.shape != walk.shape
        if is_reshaped:  # its cursor is void
            with self.shift.session.writing() as connection:
                progress.forget(connection)
        needed = self._question(walk, agreement, state)
        if needed is not None and not self.confirm(needed):
            self._hold(progress, needed)
            return False
        is_known = state is not None and state.agreed == agreement.written and state.held_rows is None
        if is_reshaped or not is_known:
            with self.shift.session.alone() as connection:
                progress.accept(connection, walk.retention, agreement.written)
            kept = RuleState(walk.shape) if is_reshaped or state is None else state
            self.states[walk.key] = replace(
                kept, accepted=walk.retention, agreed=agreement.written, held_rows=None
            )
        return True

    def _question(self, walk: Walk, agreement: Agreement, state: RuleState | None) -> Held | None:
        """Return what needs confirmation; a run with a row limit needs none."""
        if self.is_limited or not is_new(agreement, state):
            return None
        with self.shift.session.reading() as connection:
            if self.confirmation is None:  # nothing is deleted before all confirmations, so count once
                dialect = self.shift.session.dialect
                advisor = IndexAdvisor(connection, dialect, self.survey.schema, self.shift.now)
                self.confirmation = Confirmation(advisor, all_walks(connection, self.survey, dialect))
            return self.confirmation.needed(walk, agreement, state)

    def _hold(self, progress: SweepProgress, needed: Held) -> None:
        with self.shift.session.writing() as connection:
            progress.hold(connection, needed.rows)
        self.report.held.append(needed)
        announce.confirmation_needed(
            self.report.scheduler, table=needed.table, rule=needed.rule, rows=needed.rows, of=needed.of
        )

    def _conclude(self, walk: Walk) -> bool:
        outcome = self.outcomes.get(walk.key)
        if outcome is None:
            return False
        self.report.rules.append(outcome)
        self.finished(outcome)
        left = None
        if isinstance(walk, AgeWalk) and not self.is_limited:
            left = self._measure(walk, outcome)
        if outcome.ending in _SPENT and left != 0:
            self.report.unfinished.append(_unfinished(outcome, left))
        return True

    def _measure(self, walk: AgeWalk, outcome: RuleOutcome) -> int:
        """Measure the rule's health; return the number of remaining dead rows."""
        check = HealthCheck(
            shift=self.shift,
            contract=self.survey.contract,
            walk=walk,
            quarantined=self.quarantine.get(walk.key.table, []),
        )
        health = check.measure(self.states.get(walk.key), outcome)
        self.report.health.append(health)
        self.metrics.lag(
            self.report.scheduler, table=health.table, rule=health.rule, seconds=health.lag.total_seconds()
        )
        if health.is_falling_behind:
            announce.falling_behind(
                self.report.scheduler,
                table=health.table,
                rule=health.rule,
                arriving=health.arriving_per_second or 0.0,
                draining=health.draining_per_second or 0.0,
            )
        return health.backlog

    def _watch(self, watch: InlineWatch) -> bool:
        with self.shift.session.reading() as connection:
            overdue = watch.overdue_at(self.shift.now)
            found = connection.execute(oldest_instant(overdue, watch.form)).one_or_none()
        if found is None:
            return True
        oldest = read_instant(found[0], watch.form)
        self.report.overdue.append(Overdue(table=watch.key.table, path=watch.rule.path, oldest=oldest))
        announce.inline_overdue(
            self.report.scheduler, table=watch.key.table, path=watch.rule.path, oldest=oldest
        )
        return True

    def _guard(self, rule: Resolved, step: Callable[[], bool]) -> bool:
        """Run a step; a failing rule does not stop the others, a lost lease or connection stops them all."""
        try:
            return step()
        except (SweepLeaseLostError, GroundsChangedError):
            raise
        except (GandyError, SQLAlchemyError, psycopg.Error) as error:
            self._fail(rule, said(error))
            if self.shift.session.is_lost:
                raise
            return False
        except Exception as error:  # noqa: BLE001 an error of one rule must not stop the others
            announce.LOGGER.debug("%s of %s raised", rule.label, rule.declared.label, exc_info=error)
            self._fail(rule, unexpected(error))
            return False

    def _fail(self, rule: Resolved, error: str) -> None:
        table = rule.declared.label
        self.report.failures.append(RuleFailure(table=table, rule=rule.label, error=error))
        self.metrics.failed(self.report.scheduler)
        announce.tick_failed(self.report.scheduler, table=table, rule=rule.label, error=error)


def _unfinished(outcome: RuleOutcome, left: int | None) -> Unfinished:
    return Unfinished(
        table=outcome.table,
        rule=outcome.rule,
        budget=_SPENT[outcome.ending],
        left=left,
        is_counted=left is None or left < COUNTED_BACKLOG,
    )


def _reason(message: str, remedy: str) -> str:
    return f"{message}. {remedy}" if remedy else message
