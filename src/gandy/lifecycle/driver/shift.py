"""The context of all drivers during one run of a contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import false, select

from gandy.errors import RuleRefusedError, SweepLeaseLostError
from gandy.lifecycle.driver.rows import Grounds, GroundsChangedError
from gandy.sweep import Throttle as Holds
from gandy.sweep import Verdict, verdict

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from sqlalchemy import Connection

    from gandy.lifecycle.contract.tables import Throttle
    from gandy.lifecycle.database.dialect import LockPatience
    from gandy.lifecycle.database.facts import TableName
    from gandy.lifecycle.database.target import TargetSession
    from gandy.lifecycle.driver.careful import WriteGaps
    from gandy.lifecycle.state.lease import Lease

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """The context of one run by the holder of the lease; `now` is fixed for the whole run."""

    session: TargetSession
    lease: Lease
    now: datetime
    default_schema: str | None
    is_stopping: Callable[[], bool]
    rest: Callable[[timedelta], None]
    committed: Callable[[Counts], None]
    patience: LockPatience
    gaps: WriteGaps
    grounds: Grounds = field(default_factory=lambda: Grounds(false()))  # each rule has its own

    def hold_on(self, connection: Connection) -> None:
        """Renew the lease in the batch's transaction, if the grounds are unchanged; lock the tables first."""
        if self.grounds.emptied:
            self.session.dialect.keep_tables(connection, self.grounds.emptied)
        try:
            self.lease.renew(connection, self.grounds.unchanged)
        except SweepLeaseLostError:  # one statement checks lease and grounds: find out which failed
            if connection.execute(select(self.grounds.unchanged)).scalar_one():
                raise
            raise GroundsChangedError from None

    def label(self, table: TableName) -> str:
        """Return the table's name, with its schema unless it is the default schema."""
        return table.name if table.schema == self.default_schema else str(table)

    def may_go_on(self, throttles: Sequence[Holds]) -> Verdict:
        """Return the verdict between two batches."""
        return Verdict.STOP if self.grounds.have_changed else verdict(throttles, self.is_stopping)

    def throttles(self, declared: Throttle, table: TableName) -> list[Holds]:
        """Return the throttles for the sweep of one table."""
        holds: list[Holds] = [] if declared.ask is None else [declared.ask]
        lag, waiters = declared.replication_lag, declared.lock_waiters
        if lag is not None:
            holds.append(lambda: self._lag(table) > lag)
        if waiters is not None:
            holds.append(lambda: self._waiters(table) >= waiters)
        if not self.session.dialect.has_row_locks:
            holds.append(self.gaps.is_due)
        return holds

    def _lag(self, table: TableName) -> timedelta:
        """Measure the lag; refuse the rule if a standby appeared whose lag the role cannot see."""
        with self.session.reading() as connection:
            lag = self.session.dialect.replication_lag(connection)
        if lag.hidden:
            raise RuleRefusedError(self.label(table), "throttle", f"{lag}. {lag.remedy}")
        return lag.slowest

    def _waiters(self, table: TableName) -> int:
        with self.session.reading() as connection:
            return self.session.dialect.lock_waiters(connection, table)
