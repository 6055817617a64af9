"""Dropping whole partitions: one short transaction for each."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection, TableClause, func, select
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.database.dialect import Dialect, Failure, Partition
from gandy.lifecycle.database.facts import table_clause
from gandy.lifecycle.database.instants import read_instant
from gandy.lifecycle.driver.outcome import RuleOutcome
from gandy.lifecycle.selection.holds import any_held
from gandy.lifecycle.state.progress import Progress
from gandy.sweep import Ending, Throttle, Verdict

if TYPE_CHECKING:
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.walks import PartitionWalk


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSweep:
    """One drop_partition rule in one run."""

    shift: Shift
    walk: PartitionWalk
    throttles: list[Throttle]

    def run(self) -> RuleOutcome:
        """Drop every partition that is old enough and holds nothing that is kept."""
        outcome = RuleOutcome(table=self.walk.key.table, rule=self.walk.label)
        for partition in self.dead():
            if self.shift.may_go_on(self.throttles) is Verdict.STOP:
                return replace(outcome, ending=Ending.STOPPED)
            outcome = self._drop(partition, outcome)
        return outcome

    def dead(self) -> list[Partition]:
        """The partitions whose every row is older than keep_for, oldest first."""
        with self.shift.session.reading() as connection:
            return dead_partitions(connection, self.shift.session.dialect, self.walk, now=self.shift.now)

    def _drop(self, partition: Partition, outcome: RuleOutcome) -> RuleOutcome:
        started = time.perf_counter()
        try:
            with self.shift.session.batch(self.shift.patience) as connection:
                self.shift.lease.renew(connection)
                if self._is_held(connection, partition):
                    return outcome
                dialect = self.shift.session.dialect
                dialect.lock_partition(connection, self.walk.table.name, partition.name)
                if self._is_held(connection, partition):  # a hold that was set meanwhile
                    return outcome
                rows = self._count(connection, partition)
                dialect.drop_partition(connection, self.walk.table.name, partition.name)
                progress = Progress(self.walk.key, self.walk.shape)
                progress.advance(connection, cutoff=self.shift.now, cursor=None)
        except DBAPIError as error:
            if self.shift.session.dialect.failure(error) is not Failure.CONTENDED:
                raise
            return replace(outcome, ending=Ending.CONTENDED, passed_over=outcome.passed_over + 1)
        self.shift.committed({self.shift.label(self.walk.table.name): rows})
        return _with_batch(outcome, rows, timedelta(seconds=time.perf_counter() - started))

    def _is_held(self, connection: Connection, partition: Partition) -> bool:
        if not self.walk.keeps:
            return False
        clause = self._clause(partition)
        held = select(1).select_from(clause).where(any_held(clause, self.walk.keeps)).limit(1)
        return connection.execute(held).one_or_none() is not None

    def _count(self, connection: Connection, partition: Partition) -> int:
        """What really goes: a partition may never have been analysed."""
        counted = select(func.count()).select_from(self._clause(partition))
        return int(connection.execute(counted).scalar_one())

    def _clause(self, partition: Partition) -> TableClause:
        return table_clause(partition.name, self.walk.table.columns, self.shift.session.dialect.stored_type)


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


def _with_batch(outcome: RuleOutcome, rows: int, elapsed: timedelta) -> RuleOutcome:
    return replace(
        outcome,
        rows=outcome.rows + rows,
        batches=outcome.batches + 1,
        elapsed=outcome.elapsed + elapsed,
        longest_batch=max(outcome.longest_batch, elapsed),
    )
