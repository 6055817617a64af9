"""A batch of which a trigger keeps a row without an error: each row alone, undone where anything stays."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, literal, select
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.dialect import Failure
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.driver.levels import Removal, RowKeptError, narrow_levels
from gandy.lifecycle.driver.singly import Removed, TransactionEndedError, Trials
from gandy.lifecycle.selection.addresses import Rows, found
from gandy.lifecycle.selection.statements import equal, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gandy.lifecycle.driver.guarded import Doomed
    from gandy.lifecycle.driver.levels import Level
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values

_SAVE, _UNDO, _RELEASE = (
    "SAVEPOINT gandy_row",
    "ROLLBACK TO SAVEPOINT gandy_row",
    "RELEASE SAVEPOINT gandy_row",
)


def must_all_be_gone(connection: Connection, doomed: Doomed, removed: Removed) -> None:
    """Raise where a row is still there, with which or above which the database refused none."""
    rows = doomed.rows
    if removed.rows + len(removed.refused) < len(rows):
        if rows.table.may_keep_rows:
            raise RowKeptError.of(rows)
        if doomed.still is not None:
            raise RowKeptError.touched(rows, doomed.levels)
    watched = [level for level in _each(doomed.levels) if level.rows.table.may_keep_rows]
    if not watched:
        return
    staying = narrow_levels(connection, rows.only(list(removed.refused)), doomed.levels)
    stay = {(level.rows.table.name, address) for level in _each(staying) for address in level.rows.addresses}
    for level in watched:
        left = {(level.rows.table.name, address) for address in _left(connection, level.rows)}
        if left - stay:
            raise RowKeptError.of(level.rows)


def hint_of(doomed: Doomed) -> str:
    """What may be behind a foreign key that speaks of a child which was deleted before."""
    tables = {level.rows.table.name: level.rows.table for level in _each(doomed.levels)}
    watched = [table for table in tables.values() if table.may_keep_rows]
    fired = sorted(
        {str(each) for table in watched for each in table.standing.delete_triggers if each.may_keep}
    )
    return f"; a trigger may keep a row that should go with it: {', '.join(fired)}" if fired else ""


def _each(levels: Iterable[Level]) -> Iterator[Level]:
    for level in levels:
        if level.child.mode is not ChildMode.SET_NULL:
            yield level
            yield from _each(level.below)


def _left(connection: Connection, rows: Rows) -> Iterator[Values]:
    for part in rows.parts():
        yield from found(connection, select(*part.columns()).where(part.are(rows.table.clause)))


@dataclass(frozen=True, slots=True)
class RowsApart:
    """Each row in a savepoint of its own, with all that hangs on it looked up again."""

    connection: Connection
    shift: Shift
    doomed: Doomed

    def run(self, trials: Trials) -> Removed:
        """Delete all rows of which the database lets everything go."""
        rows = self.doomed.rows.addresses
        removed = Removed(refused={row: trials.refused[row] for row in rows if row in trials.refused})
        done = Removal.on(self.connection, self.shift.label)
        for address in trials.order(rows):
            self.connection.exec_driver_sql(_SAVE)
            try:
                done = self._remove(address, done, removed)
            except (DBAPIError, RowKeptError) as error:
                removed.refused[address] = self._refusal(error, address, trials)
            else:
                trials.harmless.add(address)
            self.connection.exec_driver_sql(_RELEASE)
        return removed

    def _remove(self, address: Values, done: Removal, removed: Removed) -> Removal:
        removal = done.once_more()
        row = removal.where_now(self.doomed.rows.only([address]))
        key = self._key_of(row)
        levels = narrow_levels(self.connection, row, [removal.relocated(each) for each in self.doomed.levels])
        rows = removal.remove(self.doomed.rows.only([address]), levels, still=self.doomed.still)
        if key is not None and self._is_there(key):
            raise RowKeptError.again(row.table)
        removed.rows += rows
        removed.gone += Counter(removal.gone)
        return removal

    def _key_of(self, row: Rows) -> Values | None:
        """What tells the row, where a trigger may insert it again."""
        if not row.table.standing.delete_triggers:
            return None
        clause = row.table.clause
        key = readable(tuple(clause.c[column.name] for column in row.table.key))
        found = self.connection.execute(select(*key).where(row.are(clause))).one_or_none()
        return None if found is None else tuple(found)

    def _is_there(self, key: Values) -> bool:
        clause = self.doomed.rows.table.clause
        columns = tuple(clause.c[column.name] for column in self.doomed.rows.table.key)
        same = select(literal(1)).select_from(clause).where(equal(columns, key)).limit(1)
        return self.connection.execute(same).first() is not None

    def _refusal(self, error: DBAPIError | RowKeptError, address: Values, trials: Trials) -> str:
        if isinstance(error, DBAPIError) and self.shift.session.dialect.failure(error) is not Failure.ROW:
            raise error
        driver = self.connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection) and not driver.in_transaction:
            trials.refused[address] = said(error)
            raise TransactionEndedError(error) from error
        self.connection.exec_driver_sql(_UNDO)
        return said(error)
