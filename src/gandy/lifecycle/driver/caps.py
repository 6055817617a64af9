"""Sweep a cap: key by key along an index, within a budget of pages; the next tick continues there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, and_, false, func, or_, select, true

from gandy.lifecycle.driver.ages import (
    EVERY_POISON_ROW,
    Fitting,
    Guard,
    GuardedLane,
    may_move_rows,
    pace_for,
    without,
)
from gandy.lifecycle.driver.careful import CarefulLane
from gandy.lifecycle.driver.heavy import HeavyLane, may_go_in_parts
from gandy.lifecycle.driver.lanes import Ceiling, Ties
from gandy.lifecycle.driver.rows import RowDriver, RuleOutcome
from gandy.lifecycle.selection.statements import Values, after, equal, newest_first, readable, up_to
from gandy.lifecycle.selection.walks import CapWalk, Columns, Selection
from gandy.lifecycle.state.progress import RuleState, SweepProgress
from gandy.sweep import Budget, Pace, Steps, SweepResult, Throttle, drive, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select

    from gandy.lifecycle.driver.shift import Shift

PAGES_PER_TICK = 2_000
# Estimated pages of a key, if the database does not count pages, and of batches and deleted rows.
_PAGES_PER_DESCENT = 4
_ENTRIES_PER_PAGE = 50
_PAGES_PER_BATCH = 16
_PAGES_PER_DELETE = 4


@dataclass(frozen=True, slots=True)
class _Key:
    """One examined key, its newest surplus row, and the pages that the examination read."""

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
        """Examine keys in order until the pages or the budget are used up."""
        outcome = RuleOutcome(table=self.walk.key.table, rule=self.walk.label)
        reached = began_at = None if state is None else state.cursor
        spent = 0
        while self.pages is None or spent < self.pages:
            key = self._look(reached)
            if key is None and began_at is not None and self.pages is None:
                reached = began_at = None  # without a limit of pages, also visit the keys before the cursor
                continue
            if key is None:
                has_written = outcome.batches or outcome.set_aside  # a batch saves the key that it reached
                if state is not None and (state.cursor is not None or has_written):
                    self._write(None)
                return outcome
            spent += key.pages
            before = outcome.rows
            for order in self._zones(key.bound):
                result = self._trim(key, order, budget=_left(budget, outcome), reached=reached)
                outcome = outcome.plus(result)
                spent += _PAGES_PER_BATCH * (result.batches + 1) + _PAGES_PER_DELETE * result.rows
                if not outcome.is_done:
                    return outcome
            if not (self._may_move_rows() and outcome.rows > before):  # else some may be beyond the bound
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
        """Return the next key: first keys without NULL in the order of the index, then keys with a NULL."""
        per = self.walk.per
        if not per:
            return () if reached is None else None
        found = None
        if reached is None or None not in reached:
            whole = and_(true(), *(column.is_not(None) for column in self._nullable(per)))
            ahead = select(*readable(per)).where(whole, after(per, reached)).order_by(*per).limit(1)
            found = connection.execute(ahead).one_or_none()
            reached = None
        if found is None and self._nullable(per):
            found = connection.execute(self._key_with_null(reached)).one_or_none()
        return None if found is None else tuple(found)

    def _key_with_null(self, reached: Values | None) -> Select[Any]:
        per = self.walk.per
        has_null = or_(*(column.is_(None) for column in self._nullable(per)))
        order = [part for column in per for part in (column.is_(None), column)]
        ahead = true() if reached is None else _after_with_nulls(per, reached)
        return select(*readable(per)).where(has_null, ahead).order_by(*order).limit(1)

    def _nullable(self, columns: Columns) -> Columns:
        facts = self.walk.table.columns
        return tuple(column for column in columns if column.name in facts and facts[column.name].is_nullable)

    def _bound(self, connection: Connection, key: Values) -> Values | None:
        """Return the newest surplus row of the key; a NULL is older than any instant."""
        order, kept = self.walk.order, self.walk.rule.rows
        mine = equal(self.walk.per, key)
        dated = select(*readable(order)).where(mine, order[0].is_not(None))
        dated = dated.order_by(*newest_first(order))
        found = connection.execute(dated.offset(kept).limit(1)).one_or_none()
        if found is None and self._has_undated():
            some = dated.limit(kept).subquery()
            left = select(kept - func.count()).select_from(some).scalar_subquery()
            undated = select(*readable(order)).where(mine, order[0].is_(None))
            undated = undated.order_by(*newest_first(order[1:]))
            found = connection.execute(undated.offset(left).limit(1)).one_or_none()
        return None if found is None else tuple(found)

    def _zones(self, bound: Values | None) -> list[Columns]:
        """Return the orders in which to walk the rows of a key: rows without an instant first."""
        if bound is None:
            return []
        order = self.walk.order
        undated = [order[1:]] if self._has_undated() else []
        return undated if bound[0] is None else [*undated, order]

    def _has_undated(self) -> bool:
        order = self.walk.order
        return len(order) > 1 and bool(self._nullable(order[:1]))

    def _beyond(self, key: Values, bound: Values, order: Columns) -> ColumnElement[bool]:
        walk = self.walk
        dated = walk.order[0]
        if len(order) == len(walk.order):
            oldest = and_(dated.is_not(None), up_to(order, bound))
        else:
            oldest = and_(dated.is_(None), up_to(order, bound[1:]) if bound[0] is None else true())
        return and_(equal(walk.per, key), oldest, *walk.conditions)

    def _selection(self, key: Values, bound: Values, order: Columns) -> Selection:
        selection = Selection(
            table=self.walk.table,
            dead=and_(self._beyond(key, bound, order), *self.walk.guards),
            order=order,
            children=self.walk.children,
            is_guarded=True,
            chains=self.walk.chains,
        )
        is_in_quarantine = bool(self.quarantined) or self._may_move_rows()  # the same key comes again
        return without(selection, self.walk.key, if_any=is_in_quarantine)

    def _may_move_rows(self) -> bool:
        return may_move_rows(self.shift, self.walk)

    def _trim(
        self, key: _Key, order: Columns, *, budget: Budget, reached: Values | None
    ) -> SweepResult[Values]:
        assert key.bound is not None  # noqa: S101  # else there is nothing to trim
        selection = self._selection(key.values, key.bound, order)
        progress = SweepProgress(self.walk.key, self.walk.shape)

        def remember(connection: Connection, _end: Values) -> None:
            progress.advance(connection, cutoff=self.shift.now, cursor=reached)

        def again(connection: Connection) -> ColumnElement[bool] | None:
            """Compute the bound again: rows of the key may have been deleted during the wait for locks."""
            bound = self._bound(connection, key.values)
            if bound is None:
                return None
            if len(order) not in map(len, self._zones(bound)):
                return None
            return self._selection(key.values, bound, order).dead

        fitting = Fitting(self.pace.largest)
        guard = Guard(selection, self.shift.session.dialect.has_row_locks, fitting, again)
        ties = Ties(self.shift.session, selection)
        careful = CarefulLane(shift=self.shift, guard=guard, rule=self.walk.key, remember=remember, ties=ties)
        driver = RowDriver(
            shift=self.shift,
            lane=GuardedLane(self.shift, guard, remember, ties=ties),
            careful=careful,
            heavy=HeavyLane(guard, careful, is_final=may_go_in_parts(self.walk)),
            throttles=self.throttles,
        )
        pace = pace_for(selection.children, self.pace)
        unguarded = replace(selection, dead=self._beyond(key.values, key.bound, order))
        ceiling = Ceiling(self.walk, unguarded, self.shift.session).counted()
        steps: Steps[Values] = walk(
            None, pace=pace, budget=ceiling.lowered(budget), patience=EVERY_POISON_ROW
        )
        result = drive(steps, driver.perform)
        ceiling.judge(result)
        return result

    def _remember(self, reached: Values | None, began_at: Values | None) -> None:
        """Save the key reached, if it changed."""
        if reached != began_at:
            self._write(reached)

    def _write(self, reached: Values | None) -> None:
        progress = SweepProgress(self.walk.key, self.walk.shape)
        with self.shift.session.writing() as connection:
            progress.advance(connection, cutoff=self.shift.now, cursor=reached)


def _left(budget: Budget, outcome: RuleOutcome) -> Budget:
    time_left = None if budget.time is None else budget.time - outcome.elapsed
    return Budget(rows=budget.rows_left(outcome.rows), time=time_left)


def _after_with_nulls(columns: Columns, values: Values) -> ColumnElement[bool]:
    """Return a condition: keys after this one, with NULL sorted last."""
    later: list[ColumnElement[bool]] = []
    for place, value in enumerate(values):
        if value is not None:
            mine = columns[place : place + 1]
            beyond = or_(columns[place].is_(None), after(mine, (value,)))
            later.append(and_(equal(columns[:place], values[:place]), beyond))
    return or_(false(), *later)
