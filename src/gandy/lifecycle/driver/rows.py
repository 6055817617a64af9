"""Performs the requests of a sweep on one selection of rows: each batch is its own short transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.database.dialect import Failure
from gandy.lifecycle.driver.children import settle_children
from gandy.lifecycle.selection.statements import (
    Values,
    delete_keys,
    delete_range,
    keys_in,
    last_row,
    nth_row,
)
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
    from gandy.lifecycle.driver.shift import Counts, Shift
    from gandy.lifecycle.selection.walks import Selection
    from gandy.lifecycle.state.progress import RuleKey

Remember = Callable[[Connection, Values, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDriver:
    """Deletes the rows of a selection for a sweep."""

    shift: Shift
    selection: Selection
    rule: RuleKey
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
                return self._attempt(after, limit)[0]
            case SetAside(after):
                return self._set_aside(after)
            case PassOver(after):
                return self._pass_over(after)
            case _:
                assert_never(request)

    def _attempt(self, after: Values | None, limit: int) -> tuple[Answer[Values], Values | None]:
        """Also says where the batch ended, so that a single row that fails is known by name."""
        started = time.perf_counter()
        end: Values | None = None
        try:
            with self.shift.session.batch(self.shift.patience) as connection:
                end, is_full = self._end(connection, after, limit)
                if end is None:
                    return Swept(rows=0, cursor=after, is_full=False, elapsed=_since(started)), None
                self.shift.lease.renew(connection)
                rows, counts = self._delete(connection, after, end)
                self.remember(connection, end, rows)
        except DBAPIError as error:
            return self._failed(error, _since(started)), end
        self.shift.committed(counts)  # only now: a rollback must not have been counted
        return Swept(rows=rows, cursor=end, is_full=is_full, elapsed=_since(started)), end

    def _end(self, connection: Connection, after: Values | None, limit: int) -> tuple[Values | None, bool]:
        found = connection.execute(nth_row(self.selection, after, limit)).one_or_none()
        if found is not None:
            return tuple(found), True
        found = connection.execute(last_row(self.selection, after)).one_or_none()
        return (None if found is None else tuple(found)), False

    def _delete(self, connection: Connection, after: Values | None, end: Values) -> tuple[int, Counts]:
        mine = self.shift.label(self.selection.table.name)
        if not self.selection.children:
            rows = connection.execute(delete_range(self.selection, after, end)).rowcount
            return rows, {mine: rows}
        # The parents are locked before a child is touched: one renewed meanwhile keeps its children.
        keys = [tuple(row) for row in connection.execute(keys_in(self.selection, after, end))]
        if not keys:
            return 0, {}
        counts = settle_children(connection, self.selection, keys, label=self.shift.label)
        rows = connection.execute(delete_keys(self.selection, keys)).rowcount
        return rows, counts + Counter({mine: rows})

    def _failed(self, error: DBAPIError, elapsed: timedelta) -> Refused | Contended:
        failure = self.shift.session.dialect.failure(error)
        if failure is Failure.CONTENDED:
            return Contended(elapsed=elapsed)
        if failure is Failure.ROW:
            return Refused(reason=_first_line(error), elapsed=elapsed)
        raise error

    def _set_aside(self, after: Values | None) -> Answer[Values]:
        answer, end = self._attempt(after, 1)
        if not isinstance(answer, Refused) or end is None:
            return answer
        with self.shift.session.batch(self.shift.patience) as connection:
            self.shift.lease.renew(connection)
            put_in_quarantine(connection, self._poison(end, answer.reason))
            self.remember(connection, end, 0)
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
            with self.shift.session.batch(self.shift.patience) as connection:
                end, _ = self._end(connection, after, 1)
        except DBAPIError as error:
            return self._failed(error, _since(started))
        return Swept(rows=0, cursor=end, is_full=end is not None, elapsed=_since(started))


def _since(started: float) -> timedelta:
    return timedelta(seconds=time.perf_counter() - started)


def _first_line(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())
