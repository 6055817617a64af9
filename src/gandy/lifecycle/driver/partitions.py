"""Drop whole partitions, each in a short transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection, TableClause, func, or_, select
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.database.dialect import Dialect, DriverFailure, Partition
from gandy.lifecycle.database.facts import table_clause
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.database.instants import read_instant
from gandy.lifecycle.driver.rows import RuleOutcome
from gandy.lifecycle.selection.holds import any_held
from gandy.lifecycle.state.progress import SweepProgress
from gandy.sweep import SweepEnding, Throttle, Verdict

if TYPE_CHECKING:
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.walks import PartitionWalk

_COUNTED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSweep:
    """One drop_partition rule in one run."""

    shift: Shift
    walk: PartitionWalk
    throttles: list[Throttle]

    def run(self) -> RuleOutcome:
        """Drop every partition that is old enough and contains no held row."""
        outcome = RuleOutcome(table=self.walk.key.table, rule=self.walk.label)
        for partition in self.dead():
            if self.shift.may_go_on(self.throttles) is Verdict.STOP:
                return replace(outcome, ending=SweepEnding.STOPPED)
            try:
                outcome = self._drop(partition, outcome)
            except DBAPIError as error:
                if self.shift.session.is_lost:
                    raise
                outcome = _refused(outcome, f"{partition.name} cannot be dropped: {said(error)}")
        return outcome

    def dead(self) -> list[Partition]:
        """The partitions whose every row is older than keep_for, oldest first."""
        with self.shift.session.reading() as connection:
            return dead_partitions(connection, self.shift.session.dialect, self.walk, now=self.shift.now)

    def _is_still_dead(self, connection: Connection, partition: Partition) -> bool:
        """Whether the locked partition is the one that was found, with the same bound."""
        dialect = self.shift.session.dialect
        dead = dead_partitions(connection, dialect, self.walk, now=self.shift.now)
        return any(replace(each, rows=partition.rows) == partition for each in dead)

    def _drop(self, partition: Partition, outcome: RuleOutcome) -> RuleOutcome:
        started = time.perf_counter()
        try:
            with self.shift.session.batch(self.shift.patience) as connection:
                self.shift.hold_on(connection)
                if is_held(connection, self.walk, partition, dialect=self.shift.session.dialect):
                    return outcome
                dialect = self.shift.session.dialect
                dialect.lock_partition(connection, self.walk.table.name, partition.name)
                self.shift.hold_on(connection)  # again: a key or a hold may have been added meanwhile
                if not self._is_still_dead(connection, partition):  # the name may be reused by now
                    return replace(outcome, ending=SweepEnding.CONTENDED, passed_over=outcome.passed_over + 1)
                if is_held(connection, self.walk, partition, dialect=dialect):  # a hold set meanwhile
                    return outcome
                rows = rows_in(connection, self.walk, partition, dialect=dialect)
                dialect.drop_partition(connection, self.walk.table.name, partition.name)
                progress = SweepProgress(self.walk.key, self.walk.shape)
                progress.advance(connection, cutoff=self.shift.now, cursor=None)
        except DBAPIError as error:
            if self.shift.session.dialect.failure(error) is not DriverFailure.CONTENDED:
                raise
            return replace(outcome, ending=SweepEnding.CONTENDED, passed_over=outcome.passed_over + 1)
        self.shift.committed({self.shift.label(self.walk.table.name): rows})
        return _with_batch(outcome, rows, timedelta(seconds=time.perf_counter() - started))


def is_held(connection: Connection, walk: PartitionWalk, partition: Partition, *, dialect: Dialect) -> bool:
    """Whether the partition contains a held row, or a number that is not an instant of the unit."""
    clause = _clause(dialect, walk, partition)
    held = [any_held(clause, walk.keeps)] if walk.keeps else []
    if walk.form.window is not None and _holds_strange_numbers(connection, walk):
        held.append(walk.form.window.below(clause.c[walk.rule.column]))
    if not held:
        return False
    found = select(1).select_from(clause).where(or_(*held)).limit(1)
    return connection.execute(found).one_or_none() is not None


def _holds_strange_numbers(connection: Connection, walk: PartitionWalk) -> bool:
    """Query the whole table: pruning then leaves only a partition without a lower bound to read."""
    if walk.form.window is None:
        return False
    below = walk.form.window.below(walk.table.clause.c[walk.rule.column])
    return connection.execute(select(1).where(below).limit(1)).one_or_none() is not None


def rows_in(connection: Connection, walk: PartitionWalk, partition: Partition, *, dialect: Dialect) -> int:
    """Count the rows; beyond a million, use the estimate of the statistics."""
    if partition.rows > _COUNTED:
        return partition.rows
    return count_rows(connection, walk, partition, dialect=dialect)


def count_rows(connection: Connection, walk: PartitionWalk, partition: Partition, *, dialect: Dialect) -> int:
    """Count the rows exactly."""
    counted = select(func.count()).select_from(_clause(dialect, walk, partition))
    return int(connection.execute(counted).scalar_one())


def _clause(dialect: Dialect, walk: PartitionWalk, partition: Partition) -> TableClause:
    return table_clause(partition.name, walk.table.columns, dialect.stored_type)


def dead_partitions(
    connection: Connection, dialect: Dialect, walk: PartitionWalk, *, now: datetime
) -> list[Partition]:
    """The partitions whose every row is older than keep_for, oldest first."""
    cutoff = now - walk.rule.keep_for
    ends = [
        (ends_at, partition)
        for partition in dialect.partitions(connection, walk.table, walk.rule.column)
        if (ends_at := read_instant(partition.bound, walk.form)) is not None and ends_at <= cutoff
    ]
    return [partition for _, partition in sorted(ends, key=lambda end: end[0])]


def _refused(outcome: RuleOutcome, reason: str) -> RuleOutcome:
    """Record one more partition that stays; the sweep continues with the others."""
    reason = reason if outcome.reason is None else f"{outcome.reason}; {reason}"
    return replace(outcome, passed_over=outcome.passed_over + 1, reason=reason)


def _with_batch(outcome: RuleOutcome, rows: int, elapsed: timedelta) -> RuleOutcome:
    return replace(
        outcome,
        rows=outcome.rows + rows,
        batches=outcome.batches + 1,
        elapsed=outcome.elapsed + elapsed,
        longest_batch=max(outcome.longest_batch, elapsed),
    )
