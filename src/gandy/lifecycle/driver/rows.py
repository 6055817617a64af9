"""Performs the requests of a sweep on one selection of rows: each batch is its own short transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

import psycopg
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.database.dialect import Failure
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.driver.shift import Shift
from gandy.lifecycle.selection.walks import Selection
from gandy.lifecycle.state.progress import RuleKey
from gandy.lifecycle.state.quarantine import QuarantinedRow, put_in_quarantine
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
    from gandy.lifecycle.driver.lanes import Lane, Remember
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import Selection
    from gandy.lifecycle.state.progress import RuleKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDriver:
    """Deletes the rows of a selection for a sweep."""

    shift: Shift
    selection: Selection
    rule: RuleKey
    lane: Lane
    remember: Remember
    throttles: list[Throttle]

    def perform(self, request: Request[Values]) -> Answer[Values]:
        """Do what the sweep asks for next."""
        match request:
            case Checkpoint():
                return self.shift.may_go_on(self.throttles)
            case Rest(rest_for):
                self.shift.rest(rest_for)
                return Verdict.GO
            case Attempt(after, limit):
                return self._attempt(after, limit)
            case SetAside(after):
                return self._set_aside(after)
            case PassOver(after):
                return self._pass_over(after)
            case _:
                assert_never(request)

    def _attempt(self, after: Values | None, limit: int) -> Answer[Values]:
        started = time.perf_counter()
        try:
            done = self.lane.advance(after, limit)
        except (DBAPIError, psycopg.Error) as error:
            return self._failed(error, _since(started))
        if done is None:
            return Swept(rows=0, cursor=after, is_full=False, elapsed=_since(started))
        self.shift.committed(done.counts)  # only now: a rollback must not have been counted
        return Swept(rows=done.rows, cursor=done.end, is_full=done.is_full, elapsed=_since(started))

    def _failed(self, error: DBAPIError | psycopg.Error, elapsed: timedelta) -> Refused | Contended:
        failure = self.shift.session.dialect.failure(error)
        if failure is Failure.CONTENDED:
            return Contended(elapsed=elapsed)
        if failure is Failure.ROW:
            return Refused(reason=said(error), elapsed=elapsed)
        raise error

    def _set_aside(self, after: Values | None) -> Answer[Values]:
        answer, end = self._attempt(after, 1), self.lane.end
        if not isinstance(answer, Refused) or end is None:
            return answer
        with self.shift.session.batch(self.shift.patience) as connection:
            self.shift.lease.renew(connection)
            put_in_quarantine(connection, self._poison(end, answer.reason))
            self.remember(connection, end)
        return Swept(rows=0, cursor=end, is_full=True, elapsed=answer.elapsed, set_aside=1)

    def _poison(self, end: Values, reason: str) -> QuarantinedRow:
        values = dict(zip((column.name for column in self.selection.order), end, strict=True))
        return QuarantinedRow(
            scheduler=self.rule.scheduler,
            table=self.rule.table,
            key=tuple(values[column.name] for column in self.selection.key),
            rule=self.rule.rule,
            error=reason,
            quarantined_at=self.shift.now,
        )

    def _pass_over(self, after: Values | None) -> Answer[Values]:
        started = time.perf_counter()
        try:
            end = self.lane.peek(after)
        except (DBAPIError, psycopg.Error) as error:
            return self._failed(error, _since(started))
        return Swept(rows=0, cursor=end, is_full=end is not None, elapsed=_since(started))


def _since(started: float) -> timedelta:
    return timedelta(seconds=time.perf_counter() - started)
