"""Performs the requests of a sweep on one selection of rows: each batch is its own short transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, assert_never

import psycopg
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.database.dialect import Failure
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.driver.grounds import GroundsChangedError
from gandy.lifecycle.driver.levels import BeyondBoundError, RowKeptError
from gandy.sweep import (
    Answer,
    Attempt,
    Checkpoint,
    Contended,
    PassOver,
    Refused,
    Request,
    Rest,
    SetAside,
    Swept,
    Throttle,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.lifecycle.driver.careful import CarefulLane
    from gandy.lifecycle.driver.heavy import HeavyLane
    from gandy.lifecycle.driver.lanes import Advanced, Lane
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDriver:
    """Deletes the rows of a selection for a sweep."""

    shift: Shift
    lane: Lane
    careful: CarefulLane
    heavy: HeavyLane
    throttles: list[Throttle]

    def perform(self, request: Request[Values]) -> Answer[Values]:
        """Do what the sweep asks for next."""
        match request:
            case Checkpoint():
                return self.shift.may_go_on(self.throttles)
            case Rest(rest_for):
                self.shift.rest(rest_for)
                self.shift.gaps.rested(rest_for)
                return Verdict.GO
            case Attempt(after, limit):
                return self._on_grounds(after, partial(self._attempt, after, limit))
            case SetAside(after):
                return self._on_grounds(after, partial(self._set_aside, after))
            case PassOver(after):
                return self._pass_over(after)
            case _:
                assert_never(request)

    def _on_grounds(self, after: Values | None, step: Callable[[], Answer[Values]]) -> Answer[Values]:
        """Where the grounds have changed nothing was done, and the sweep ends at its next checkpoint."""
        try:
            return step()
        except GroundsChangedError:
            self.shift.grounds.have_changed = True
            return Swept(rows=0, cursor=after, is_full=True, elapsed=timedelta(0))

    def _attempt(self, after: Values | None, limit: int) -> Answer[Values]:
        """One batch; where a row of it cannot go, once more with each row on its own."""
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

    def _advance(self, after: Values | None, limit: int) -> Advanced | None:
        if self.heavy.is_at(after):
            return self.heavy.advance(after, limit)
        try:
            try:
                return self.lane.advance(after, limit)
            except (DBAPIError, psycopg.Error) as error:
                if self.shift.session.dialect.failure(error) is not Failure.ROW:
                    raise
                return self.careful.advance(after, limit)
            except RowKeptError:
                return self.careful.advance(after, limit, is_apart=True)
        except BeyondBoundError:
            return self.heavy.advance(after, limit)

    def _swept(self, done: Advanced | None, after: Values | None, elapsed: timedelta) -> Swept[Values]:
        if done is None:
            return Swept(rows=0, cursor=after, is_full=False, elapsed=elapsed)
        self.shift.committed(done.counts)  # only now: a rollback must not have been counted
        return Swept(
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
        if failure is Failure.CONTENDED:
            return Contended(elapsed=elapsed)
        if failure is Failure.ROW:
            return Refused(reason=said(error), elapsed=elapsed)
        raise error

    def _set_aside(self, after: Values | None) -> Answer[Values]:
        answer = self._attempt(after, 1)
        end = self.heavy.end if self.heavy.is_at(after) else self.lane.end
        if not isinstance(answer, Refused) or end is None:
            return answer
        self.careful.set_aside(end, answer.reason)
        return Swept(rows=0, cursor=end, is_full=True, elapsed=answer.elapsed, set_aside=1)

    def _pass_over(self, after: Values | None) -> Answer[Values]:
        started = time.perf_counter()
        try:
            end = self.lane.peek(after)
        except (DBAPIError, psycopg.Error) as error:
            return self._failed(error, _since(started))
        return Swept(rows=0, cursor=end, is_full=end is not None, elapsed=_since(started))


def _since(started: float) -> timedelta:
    return timedelta(seconds=time.perf_counter() - started)
