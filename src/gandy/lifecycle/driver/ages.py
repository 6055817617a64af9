"""Sweep by age."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, select
from typing_extensions import override

from gandy.lifecycle.driver.careful import CarefulLane
from gandy.lifecycle.driver.chains import Chains
from gandy.lifecycle.driver.heavy import HeavyLane, may_go_in_parts
from gandy.lifecycle.driver.lanes import (
    BatchRange,
    Ceiling,
    CommittedBatch,
    Lane,
    OrdinaryLane,
    Remember,
    Ties,
    find_end,
    must_stay_gone,
)
from gandy.lifecycle.driver.levels import (
    BeyondBoundError,
    Level,
    Removal,
    Room,
    lock_levels,
    may_touch,
    narrow_levels,
)
from gandy.lifecycle.driver.pipelined import PipelinedLane
from gandy.lifecycle.driver.rows import RowDriver, RuleOutcome
from gandy.lifecycle.selection.statements import Rows, found, rows_of
from gandy.lifecycle.selection.walks import cuts_own_rows
from gandy.lifecycle.state.progress import RuleKey, RuleState, SweepProgress, not_in_quarantine
from gandy.sweep import Budget, Pace, Patience, SweepEnding, Throttle, drive, walk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Child, Selection


Again = Callable[[Connection], ColumnElement[bool] | None]
T = TypeVar("T")


class Fitting:
    """Adapts the batch size so that rows fit with their dependent rows; it learns from earlier batches."""

    __slots__ = ("_rows", "bound")

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._rows = bound

    def fit(self, limit: int, attempt: Callable[[int], T]) -> T:
        """Retry with fewer rows, each time in a new transaction; raise if a single row does not fit."""
        while True:
            try:
                return attempt(min(limit, self._rows))
            except BeyondBoundError as beyond:
                self._rows = max(1, beyond.parents // 2)
                if beyond.parents <= 1:
                    raise

    def learn(self, rows: int, room: Room) -> None:
        """Adapt to the number of dependent rows of these rows."""
        if rows:
            self._rows = max(1, min(2 * rows, self.bound * rows // (self.bound - room.left)))


@dataclass(frozen=True, slots=True)
class LockedBatch:
    """Locked rows of a batch that may be deleted, with their dependent rows."""

    rows: Rows
    levels: tuple[Level, ...]
    still: ColumnElement[bool] | None = None  # checked again if a trigger may change the rows


@dataclass(frozen=True, slots=True)
class Guard:
    """Locks the rows of a batch, then checks them again: they may have changed during the wait."""

    selection: Selection
    has_locks: bool
    fitting: Fitting
    again: Again | None = None  # the condition after the locks; None if no row is dead any more

    def doomed(self, connection: Connection, batch: BatchRange) -> LockedBatch:
        """Return the rows of the batch that may be deleted, as of a statement after their locks."""
        locked = self._lock(connection, batch)
        room = Room(max(0, self.fitting.bound - len(locked)))
        try:
            levels = lock_levels(connection, locked, self.selection.children, room=room)
        except BeyondBoundError as error:
            raise BeyondBoundError(len(locked)) from error
        self.fitting.learn(len(locked), room)
        rows = locked.only(self.still_dead(connection, locked))
        if len(rows) < len(locked):
            levels = narrow_levels(connection, rows, levels)
        return LockedBatch(rows, levels, self.still(connection, levels))

    def still(self, connection: Connection, levels: tuple[Level, ...]) -> ColumnElement[bool] | None:
        """Return the condition of rows that are still dead; None if no trigger below may change them."""
        if not may_touch(levels, self.selection.table):
            return None
        return self.selection.dead if self.again is None else self.again(connection)

    def lock_one(self, connection: Connection, batch: BatchRange) -> Rows:
        """Lock the only row of the batch; return no row if it is not dead any more."""
        rows = self._lock(connection, batch)
        return rows.only(rows.addresses[:1])

    def _lock(self, connection: Connection, batch: BatchRange) -> Rows:
        rows = rows_of(self.selection.table, has_locks=self.has_locks)
        statement = select(*rows.columns()).where(batch.are_dead)
        if batch.listed is None:  # a list has its own order; an index in another order must not be read
            statement = statement.order_by(*self.selection.order)
        return rows.only(found(connection, statement.with_for_update(of=self.selection.table.clause)))

    def still_dead(self, connection: Connection, locked: Rows) -> list[Values]:
        """Return the locked rows that may be deleted, as of this statement."""
        dead = self.selection.dead if self.again is None else self.again(connection)
        if dead is None:
            return []
        still: list[Values] = []
        for part in locked.parts():
            clause = locked.table.clause
            still += found(connection, select(*part.columns()).where(part.are(clause), dead))
        return still


class GuardedLane(Lane):
    """Statement by statement, on any database, for rows with children or `wait_for` references."""

    def __init__(self, shift: Shift, guard: Guard, remember: Remember, *, ties: Ties) -> None:
        self.end: Values | None = None
        self._shift = shift
        self._ties = ties
        self._guard = guard
        self._remember = remember
        self._chains = Chains(shift, guard)

    @override
    def advance(self, after: Values | None, limit: int) -> CommittedBatch | None:
        if after is not None and self._chains.has_freed:
            self.end = None
            return self._chains.follow(after, limit)
        return self._guard.fitting.fit(limit, lambda rows: self._advance(after, rows))

    def _advance(self, after: Values | None, limit: int) -> CommittedBatch | None:
        self.end = None
        batch = self._ties.listed(after, limit)
        with self._shift.session.batch(self._shift.patience) as connection:
            batch = batch or self._ties.found(connection, after, limit)
            if batch is None:
                return None
            self.end = batch.end
            self._shift.hold_on(connection)
            removal = Removal.on(connection, self._shift.label)
            rows = self._chains.remove(connection, batch, removal)
            if self._guard.again is None:  # else the newer bound may have spared a row
                must_stay_gone(connection, batch, has_locks=self._guard.has_locks)
            self._remember(connection, batch.end)
        self._ties.settled(batch, rows)
        return CommittedBatch(batch.end, batch.is_full or self._chains.has_freed, rows, removal.gone)

    @override
    def peek(self, after: Values | None) -> Values | None:
        with self._shift.session.batch(self._shift.patience) as connection:
            return find_end(connection, self._guard.selection, after=after, limit=1)[0]


# Each row of a batch may have dependent rows.
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
        """Continue where the last run stopped, then sweep rows that expired since."""
        outcome = RuleOutcome(table=self.walk.key.table, rule=self.walk.label)
        if state is not None and state.cutoff is not None:
            outcome = self._pass(outcome, budget, since=state.cutoff, after=state.cursor)
        if outcome.is_done:
            left = _left(budget, outcome)
            outcome = self._pass(outcome, left, since=self.shift.now, after=None)
        has_missed = self.walk.chains or may_move_rows(self.shift, self.walk)
        return self._climb(outcome, budget) if has_missed else outcome

    def _climb(self, outcome: RuleOutcome, budget: Budget) -> RuleOutcome:
        """Repeat for rows that moved, or waited for rows of their own table that the lane cannot follow."""
        before = -1
        while outcome.is_done and outcome.rows > max(before, 0):
            before = outcome.rows
            outcome = self._pass(outcome, _left(budget, outcome), since=self.shift.now, after=None)
        return outcome

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
        progress = SweepProgress(self.walk.key, self.walk.shape)

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
        unguarded = replace(self.walk, guards=()).frozen_at(since)
        ceiling = Ceiling(self.walk, unguarded, self.shift.session).counted()
        steps = walk(after, pace=pace, budget=ceiling.lowered(budget), patience=EVERY_POISON_ROW)
        result = drive(steps, driver.perform)
        ceiling.judge(result)
        if result.ending is SweepEnding.EXHAUSTED and (after is not None or result.cursor is not None):
            with self.shift.session.writing() as connection:
                progress.finish_pass(connection)
        outcome = outcome.plus(result)
        if ties.has_missed and outcome.is_done and not is_again:
            return self._pass(outcome, _left(budget, outcome), since=since, after=None, is_again=True)
        return outcome

    def _lane(
        self, guard: Guard, ties: Ties, progress: SweepProgress, *, since: datetime, remember: Remember
    ) -> Lane:
        """Choose the lane: pipelined if the database allows it and the row alone decides."""
        if guard.selection.is_guarded or guard.selection.table.may_keep_rows:
            return GuardedLane(self.shift, guard, remember, ties=ties)
        if self.shift.session.dialect.has_pipeline:
            remembering = partial(progress.advancing, since)
            return PipelinedLane(self.shift, guard.selection, remembering, ties=ties)
        return OrdinaryLane(self.shift, guard.selection, remember, ties=ties)


def may_move_rows(shift: Shift, walk: AgeWalk | CapWalk) -> bool:
    """Whether a batch may move rows that are ahead of the walk: these would be missed.

    Without a key the address is the last column of the order. On PostgreSQL an update changes it.
    """
    has_key = {column.name for column in walk.table.key} <= set(walk.table.columns)
    is_moved_by_updates = shift.session.dialect.has_row_locks
    return is_moved_by_updates and not has_key and cuts_own_rows(walk.table, walk.children)


def pace_for(children: Sequence[Child], pace: Pace) -> Pace:
    """Return the pace, with smaller batches for rows with children."""
    if not children:
        return pace
    largest = min(pace.largest, _LARGEST_WITH_CHILDREN)
    return replace(pace, start=min(pace.start, largest), largest=largest)


def without(selection: Selection, rule: RuleKey, *, if_any: bool) -> Selection:
    """Exclude rows in quarantine; omit the condition if there are none."""
    if not if_any:
        return selection
    is_free = not_in_quarantine(selection.key, rule.scheduler, rule.table)
    return replace(selection, dead=and_(selection.dead, is_free))


def _left(budget: Budget, outcome: RuleOutcome) -> Budget:
    return Budget(
        rows=budget.rows_left(outcome.rows),
        time=None if budget.time is None else max(budget.time - outcome.elapsed, budget.time * 0),
    )
