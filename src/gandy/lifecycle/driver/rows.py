"""Delete rows of one table: the grounds of a batch, its attempt, and its outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, assert_never

import psycopg
from sqlalchemy import ColumnElement, and_, exists, false, or_
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.dialect import DriverFailure
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.driver.levels import BeyondBoundError, RowKeptError
from gandy.lifecycle.selection.statements import equal
from gandy.lifecycle.selection.walks import Child, PartitionWalk, Walk
from gandy.lifecycle.state.tables import HOLD
from gandy.sweep import (
    Answer,
    Attempt,
    Checkpoint,
    Contended,
    PassOver,
    Refused,
    Request,
    Rest,
    SetAsideRequest,
    SweepEnding,
    SweepResult,
    SweptBatch,
    Throttle,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import SchemaFacts, TableFacts, TableName
    from gandy.lifecycle.driver.careful import CarefulLane
    from gandy.lifecycle.driver.heavy import HeavyLane
    from gandy.lifecycle.driver.lanes import CommittedBatch, Lane
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.state.holds import Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """Counts of deleted and remaining rows for one rule."""

    table: str
    rule: str
    ending: SweepEnding = SweepEnding.EXHAUSTED
    rows: int = 0
    batches: int = 0
    set_aside: int = 0
    passed_over: int = 0
    elapsed: timedelta = timedelta(0)
    longest_batch: timedelta = timedelta(0)
    reason: str | None = None

    def plus(self, result: SweepResult[tuple[object, ...]]) -> RuleOutcome:
        """Add one more sweep of the same rule."""
        return replace(
            self,
            ending=result.ending,
            rows=self.rows + result.rows,
            batches=self.batches + result.batches,
            set_aside=self.set_aside + result.set_aside,
            passed_over=self.passed_over + result.passed_over,
            elapsed=self.elapsed + result.elapsed,
            longest_batch=max(self.longest_batch, result.longest_batch),
            reason=result.reason or self.reason,
        )

    def after(self, earlier: RuleOutcome) -> RuleOutcome:
        """Add an earlier round of the same run."""
        return replace(
            self,
            rows=self.rows + earlier.rows,
            batches=self.batches + earlier.batches,
            set_aside=self.set_aside + earlier.set_aside,
            passed_over=self.passed_over + earlier.passed_over,
            elapsed=self.elapsed + earlier.elapsed,
            longest_batch=max(self.longest_batch, earlier.longest_batch),
            reason=self.reason or earlier.reason,
        )

    @property
    def is_done(self) -> bool:
        """Whether no deletable row was left."""
        return self.ending is SweepEnding.EXHAUSTED


class GroundsChangedError(Exception):
    """A table or a hold has changed since the rules were judged: they must be judged again."""


@dataclass(slots=True)
class Grounds:
    """The facts that one rule relies on."""

    unchanged: ColumnElement[bool]
    emptied: tuple[TableName, ...] = ()  # tables that lose rows, children first
    have_changed: bool = False


def grounds_of(walk: Walk, schema: SchemaFacts, dialect: Dialect, *, holds: Iterable[Hold]) -> Grounds:
    """Return the grounds of one rule; for partitions only holds, since a drop changes the table itself."""
    no_new_hold = _no_hold_but(holds, walk.key.scheduler)
    if isinstance(walk, PartitionWalk):
        return Grounds(no_new_hold)
    tables = {table.name: schema.marks[table.name] for table in _read(walk, schema)}
    emptied = [*_emptied(walk.children), walk.table]
    may_lock = (table.name for table in emptied if table.standing.may_delete)
    return Grounds(and_(dialect.unchanged(tables), no_new_hold), tuple(dict.fromkeys(may_lock)))


def _read(walk: Walk, schema: SchemaFacts) -> Iterator[TableFacts]:
    """Yield the tables whose rows are deleted, or decide which are."""
    yield walk.table
    if isinstance(walk, PartitionWalk):
        return
    yield from _below(walk.children)
    for reference in walk.rule.wait_for:
        found = schema.find(reference.table, reference.schema or walk.table.name.schema)
        if found is not None:
            yield found


def _below(children: Iterable[Child]) -> Iterator[TableFacts]:
    for child in children:
        yield from _below(child.children)
        yield child.table


def _emptied(children: Iterable[Child]) -> Iterator[TableFacts]:
    for child in children:
        if child.mode is not ChildMode.SET_NULL:
            yield from _emptied(child.children)
            yield child.table


def _no_hold_but(known: Iterable[Hold], scheduler: str) -> ColumnElement[bool]:
    """Return a condition: no other contract has recorded an unknown hold; a removed hold is harmless."""
    columns = tuple(HOLD.c)
    recorded = (
        equal(columns, (hold.scheduler, hold.schema_name, hold.table_name, hold.column_name, hold.equals))
        for hold in known
    )
    return ~exists().where(HOLD.c.scheduler != scheduler, ~or_(false(), *recorded))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDriver:
    """Deletes the rows of a selection for a sweep."""

    shift: Shift
    lane: Lane
    careful: CarefulLane
    heavy: HeavyLane
    throttles: list[Throttle]

    def perform(self, request: Request[Values]) -> Answer[Values]:
        """Carry out the next request of the sweep."""
        match request:
            case Checkpoint():
                return self.shift.may_go_on(self.throttles)
            case Rest(rest_for):
                self.shift.rest(rest_for)
                self.shift.gaps.rested(rest_for)
                return Verdict.GO
            case Attempt(after, limit):
                return self._on_grounds(after, partial(self._attempt, after, limit))
            case SetAsideRequest(after):
                return self._on_grounds(after, partial(self._set_aside, after))
            case PassOver(after):
                return self._pass_over(after)
            case _:
                assert_never(request)

    def _on_grounds(self, after: Values | None, step: Callable[[], Answer[Values]]) -> Answer[Values]:
        """Run a step; if the grounds changed, it did nothing and the sweep stops at its next checkpoint."""
        try:
            return step()
        except GroundsChangedError:
            self.shift.grounds.have_changed = True
            return SweptBatch(rows=0, cursor=after, is_full=True, elapsed=timedelta(0))

    def _attempt(self, after: Values | None, limit: int) -> Answer[Values]:
        """Try one batch; if a row of it cannot be deleted, retry with each row on its own."""
        started = time.perf_counter()
        try:
            done = self._advance(after, limit)
        except (DBAPIError, psycopg.Error) as error:
            return self._failed(error, self._held_since(started))
        return self._swept(done, after, self._held_since(started))

    def _held_since(self, started: float) -> timedelta:
        elapsed = _since(started)
        self.shift.gaps.held(elapsed)
        return elapsed

    def _advance(self, after: Values | None, limit: int) -> CommittedBatch | None:
        if self.heavy.is_at(after):
            return self.heavy.advance(after, limit)
        try:
            try:
                return self.lane.advance(after, limit)
            except (DBAPIError, psycopg.Error) as error:
                if self.shift.session.dialect.failure(error) is not DriverFailure.ROW:
                    raise
                return self.careful.advance(after, limit)
            except RowKeptError:
                return self.careful.advance(after, limit, is_apart=True)
        except BeyondBoundError:
            return self.heavy.advance(after, limit)

    def _swept(
        self, done: CommittedBatch | None, after: Values | None, elapsed: timedelta
    ) -> SweptBatch[Values]:
        if done is None:
            return SweptBatch(rows=0, cursor=after, is_full=False, elapsed=elapsed)
        self.shift.committed(done.counts)  # only after the commit: a rollback must not count
        return SweptBatch(
            rows=done.rows,
            cursor=done.end,
            is_full=done.is_full,
            elapsed=elapsed,
            set_aside=done.set_aside,
            reason=done.reason,
            along=done.along,
        )

    def _failed(self, error: DBAPIError | psycopg.Error, elapsed: timedelta) -> Refused | Contended:
        failure = self.shift.session.dialect.failure(error)
        if failure is DriverFailure.CONTENDED:
            return Contended(elapsed=elapsed)
        if failure is DriverFailure.ROW:
            return Refused(reason=said(error), elapsed=elapsed)
        raise error

    def _set_aside(self, after: Values | None) -> Answer[Values]:
        answer = self._attempt(after, 1)
        end = self.heavy.end if self.heavy.is_at(after) else self.lane.end
        if not isinstance(answer, Refused) or end is None:
            return answer
        self.careful.set_aside(end, answer.reason)
        return SweptBatch(rows=0, cursor=end, is_full=True, elapsed=answer.elapsed, set_aside=1)

    def _pass_over(self, after: Values | None) -> Answer[Values]:
        started = time.perf_counter()
        try:
            end = self.lane.peek(after)
        except (DBAPIError, psycopg.Error) as error:
            return self._failed(error, _since(started))
        return SweptBatch(rows=0, cursor=end, is_full=end is not None, elapsed=_since(started))


def _since(started: float) -> timedelta:
    return timedelta(seconds=time.perf_counter() - started)
