"""Rows that waited for rows of their own table, and may be deletable once those are deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.database.dialect import DriverFailure
from gandy.lifecycle.driver.lanes import BatchRange, CommittedBatch
from gandy.lifecycle.driver.levels import BeyondBoundError, Removal, RowKeptError, referring
from gandy.lifecycle.selection.statements import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from gandy.lifecycle.driver.ages import Guard
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Rows, Values


@dataclass(slots=True)
class Chains:
    """Deletes a batch, and then the rows to which it referred, wherever the walk's order has them.

    A chain thus costs its own length, not a pass over all dead rows for each of its rows. What cannot be
    followed waits for the next pass: rows that are refused, and every row of a table with DELETE triggers,
    since a row that a trigger inserts again is found by the range of its batch.
    """

    shift: Shift
    guard: Guard
    _freed: dict[Values, None] = field(default_factory=dict)

    @property
    def has_freed(self) -> bool:
        """Whether rows are left to follow."""
        return bool(self._freed)

    def remove(self, connection: Connection, batch: BatchRange, removal: Removal) -> int:
        """Delete the rows of a batch that may be deleted; rows to which they refer are followed next."""
        self._freed = {}
        return self._remove(connection, batch, removal)

    def follow(self, after: Values, limit: int) -> CommittedBatch:
        """Delete freed rows, and those that they free in turn, in one transaction."""
        freed, self._freed = list(self._freed), {}
        try:
            return self.guard.fitting.fit(limit, partial(self._follow, freed, after))
        except (DBAPIError, psycopg.Error, RowKeptError, BeyondBoundError) as error:
            self._freed = {}
            if not self._is_of_a_row(error):
                raise
        return CommittedBatch(after, is_full=True, rows=0, counts={})

    def _is_of_a_row(self, error: Exception) -> bool:
        if isinstance(error, RowKeptError | BeyondBoundError):
            return True
        return self.shift.session.dialect.failure(error) is DriverFailure.ROW

    def _follow(self, freed: Iterable[Values], after: Values, limit: int) -> CommittedBatch:
        self._freed = dict.fromkeys(freed)
        rows = 0
        with self.shift.session.batch(self.shift.patience) as connection:
            self.shift.hold_on(connection)
            removal = Removal.on(connection, self.shift.label)
            while self._freed and rows < limit:
                rows += self._remove(connection, self._next(after, limit - rows), removal)
                if self.guard.selection.children:  # the bound of a batch includes dependent rows
                    break
        return CommittedBatch(after, is_full=True, rows=rows, counts=removal.gone)

    def _next(self, after: Values, most: int) -> BatchRange:
        table, has_locks = self.guard.selection.table, self.guard.has_locks
        rows = rows_of(table, has_locks=has_locks)
        chosen = list(self._freed)[: min(most, rows.most_in_one_statement)]
        for address in chosen:
            del self._freed[address]
        return BatchRange(self.guard.selection, after, after, is_full=True, listed=rows.only(chosen))

    def _remove(self, connection: Connection, batch: BatchRange, removal: Removal) -> int:
        doomed = self.guard.doomed(connection, batch)
        if not doomed.rows.addresses:
            return 0
        self._note(connection, doomed.rows)
        return removal.remove(doomed.rows, doomed.levels, still=doomed.still)

    def _note(self, connection: Connection, rows: Rows) -> None:
        if rows.table.standing.delete_triggers:
            return
        going = set(rows.addresses)
        for chain in self.guard.selection.chains:
            found = referring(connection, rows, chain, parents=rows)
            self._freed.update(dict.fromkeys(address for address in found if address not in going))
