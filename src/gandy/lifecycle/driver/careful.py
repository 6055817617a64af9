"""Delete a refused batch level by level or row by row, and leave gaps for other writers."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, literal, select, text
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.dialect import DriverFailure
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.driver.lanes import CommittedBatch, Remember
from gandy.lifecycle.driver.levels import KEPT, Removal, RowKeptError, may_keep_references, narrow_levels
from gandy.lifecycle.driver.singly import Removed, TransactionEndedError, Trials, remove_singly
from gandy.lifecycle.selection.statements import Rows, equal, found, readable
from gandy.lifecycle.state.progress import KeyText, Quarantined, put_in_quarantine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gandy.lifecycle.database.target import TargetSession
    from gandy.lifecycle.driver.ages import Guard, LockedBatch
    from gandy.lifecycle.driver.lanes import Ties
    from gandy.lifecycle.driver.levels import Level
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.state.progress import RuleKey


_SAVE, _UNDO, _RELEASE = (
    "SAVEPOINT gandy_row",
    "ROLLBACK TO SAVEPOINT gandy_row",
    "RELEASE SAVEPOINT gandy_row",
)


def must_all_be_gone(connection: Connection, doomed: LockedBatch, removed: Removed) -> None:
    """Raise an error if a row remains, unless the database refused it or a row that it depends on."""
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


def hint_of(doomed: LockedBatch) -> str:
    """Return a possible cause of a foreign key violation by a child that was already deleted."""
    tables = {level.rows.table.name: level.rows.table for level in _each(doomed.levels)}
    watched = [table for table in tables.values() if table.may_keep_rows]
    fired = sorted(
        {str(each) for table in watched for each in table.standing.delete_triggers if each.may_keep}
    )
    return f"; a trigger may keep a row that should be deleted with it: {', '.join(fired)}" if fired else ""


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
    """Deletes each row in its own savepoint, with its dependent rows looked up again."""

    connection: Connection
    shift: Shift
    doomed: LockedBatch

    def run(self, trials: Trials) -> Removed:
        """Delete the rows that the database allows to be deleted with all their dependent rows."""
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
        """Return the key of the row, if a trigger may insert it again."""
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
        if (
            isinstance(error, DBAPIError)
            and self.shift.session.dialect.failure(error) is not DriverFailure.ROW
        ):
            raise error
        driver = self.connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection) and not driver.in_transaction:
            trials.refused[address] = said(error)
            raise TransactionEndedError(error) from error
        self.connection.exec_driver_sql(_UNDO)
        return said(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarefulLane:
    """Batches of one selection in which a refused row does not affect the others."""

    shift: Shift
    guard: Guard
    rule: RuleKey
    remember: Remember
    ties: Ties

    def advance(self, after: Values | None, limit: int, *, is_apart: bool = False) -> CommittedBatch | None:
        """Delete the deletable rows of the next batch and quarantine the rest, in one transaction."""
        return self.guard.fitting.fit(limit, lambda rows: self._tried(after, rows, is_apart=is_apart))

    def _tried(self, after: Values | None, limit: int, *, is_apart: bool) -> CommittedBatch | None:
        trials = Trials(is_apart=is_apart)
        while True:
            try:
                return self._advance(after, limit, trials)
            except TransactionEndedError:
                continue  # retry without the row that ended it
            except RowKeptError:
                trials.is_apart = True  # retry row by row to find the kept row

    def _advance(self, after: Values | None, limit: int, trials: Trials) -> CommittedBatch | None:
        batch = self.ties.listed(after, limit)
        with self.shift.session.batch(self.shift.patience) as connection:
            batch = batch or self.ties.found(connection, after, limit)
            if batch is None:
                return None
            self.shift.hold_on(connection)
            if self.guard.has_locks:  # a deferred check at the commit would fail the whole batch
                connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
            doomed = self.guard.doomed(connection, batch)
            removed = self._remove(connection, doomed, trials)
            self.quarantine(connection, doomed.rows, removed.refused)
            self.remember(connection, batch.end)
        self.ties.settled(batch, removed.rows + len(removed.refused))
        reason = next(iter(removed.refused.values()), None)
        return CommittedBatch(
            batch.end, batch.is_full, removed.rows, removed.gone, len(removed.refused), reason
        )

    def _remove(self, connection: Connection, doomed: LockedBatch, trials: Trials) -> Removed:
        if trials.is_apart or may_keep_references(doomed.levels):
            removed = RowsApart(connection, self.shift, doomed).run(trials)
        else:
            removed = remove_singly(connection, doomed, shift=self.shift, trials=trials)
            must_all_be_gone(connection, doomed, removed)
        hint = hint_of(doomed)
        refused = {
            row: reason if KEPT in reason else reason + hint for row, reason in removed.refused.items()
        }
        return replace(removed, refused=refused)

    def set_aside(self, end: Values, reason: str) -> None:
        """Quarantine the one row that a batch consisted of."""
        selection = self.guard.selection
        with self.shift.session.batch(self.shift.patience) as connection:
            self.shift.hold_on(connection)
            found = connection.execute(select(KeyText(selection.key)).where(equal(selection.order, end)))
            put_in_quarantine(connection, [self._row(key, reason) for key in found.scalars()])
            self.remember(connection, end)

    def quarantine(self, connection: Connection, rows: Rows, refused: Mapping[Values, str]) -> None:
        """Record rows that stay, each with the reason."""
        poison = rows.only(list(refused))
        for part in poison.parts():
            clause = rows.table.clause
            found = connection.execute(
                select(*part.columns(), KeyText(self.guard.selection.key)).where(part.are(clause))
            )
            put_in_quarantine(
                connection, [self._row(str(row[-1]), refused[tuple(row[:-1])]) for row in found]
            )

    def _row(self, key: str, reason: str) -> Quarantined:
        return Quarantined(
            scheduler=self.rule.scheduler,
            table_name=self.rule.table,
            row_key=key,
            rule=self.rule.rule,
            error=reason,
            quarantined_at=self.shift.now,
        )


LONG_ENOUGH = timedelta(milliseconds=110)  # a gap in which every waiting writer tries at least once
BESIDE_WRITERS = timedelta(milliseconds=150)  # time with the lock until the next gap
_AT_FIRST = timedelta(milliseconds=250)
ALONE = timedelta(seconds=1)


class WriteGaps:
    """Decides when to release the write lock: soon if other connections write, later if none does."""

    @classmethod
    def of(cls, session: TargetSession) -> WriteGaps:
        """Track the writes of one session."""
        return cls(partial(_version, session))

    def __init__(self, version: Callable[[], int | None]) -> None:
        self._version = version  # changes with every commit of another connection
        self._seen: int | None = None
        self._has_left_one = False
        self._most = _AT_FIRST
        self._held = timedelta(0)
        self._rested = timedelta(0)

    def held(self, span: timedelta) -> None:
        """Record that the lock was held, or waited for."""
        self._held += span
        self._rested = timedelta(0)

    def rested(self, span: timedelta) -> None:
        """Record that the lock was free."""
        self._rested += span

    def is_due(self) -> bool:
        """Whether the lock must stay free."""
        if self._held < self._most:
            return False
        if self._seen is None and self._has_left_one:  # saves a short run the extra statement
            self._seen = self._version()
        if self._rested < LONG_ENOUGH:
            return True
        self._learn()
        return False

    def _learn(self) -> None:
        """Adapt the time to the next gap: a writer that used the gap will write again."""
        self._held = timedelta(0)
        if not self._has_left_one:
            self._has_left_one = True
            return
        seen, self._seen = self._seen, self._version()
        is_alone = seen is not None and seen == self._seen
        self._most = min(2 * self._most, ALONE) if is_alone else BESIDE_WRITERS


def _version(session: TargetSession) -> int | None:
    """Read the version; None if other writers block even this read."""
    try:
        with session.reading() as connection:
            return session.dialect.version_of_others(connection)
    except DBAPIError as error:
        if session.dialect.failure(error) is not DriverFailure.CONTENDED:
            raise
        return None
