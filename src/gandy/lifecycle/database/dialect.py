"""The interface of the lifecycle to a database; each kind implements it in its own module."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import ColumnElement, Connection, FromClause, Select

    from gandy.lifecycle.contract.fields import Unit
    from gandy.lifecycle.database.facts import (
        Catalogue,
        ColumnFacts,
        ColumnType,
        TableFacts,
        TableName,
        Wanted,
    )
    from gandy.lifecycle.database.instants import Form
    from gandy.lifecycle.database.state_sight import StateTables


class DriverFailure(StrEnum):
    """Why a batch failed."""

    CONTENDED = "contended"
    ROW = "row"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockPatience:
    """How long a batch may wait for a lock, and how long one statement may take."""

    lock: timedelta = timedelta(milliseconds=200)
    statement: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class AccessPath:
    """How the database would find the rows of a statement."""

    is_search: bool
    index: str | None
    detail: str
    is_in_order: bool = True  # the index can seek to any place in the statement's order


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows (an estimate where counting would cost) and bytes (None where unknown)."""

    rows: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition and its exclusive upper bound; rows is an estimate."""

    name: TableName
    bound: str
    rows: int
    number: int = 0  # identifies the table, also after a rename


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is partitioned."""

    key: str  # as the database writes it
    column: str | None  # of a RANGE over one column; None for any other layout
    endless: tuple[TableName, ...] = ()  # partitions with rows but without an upper bound


@dataclass(frozen=True, slots=True)
class ReplicationLag:
    """The lag of the slowest standby, as far as the role may see it."""

    slowest: timedelta = timedelta(0)
    hidden: int = 0  # standbys whose lag the role may not see
    remedy: str = ""

    def __str__(self) -> str:
        standbys = "a standby" if self.hidden == 1 else f"{self.hidden} standbys"
        return f"the role may not see the replication lag of {standbys}, which the throttle needs"


class Dialect(Protocol):
    """One kind of database."""

    name: str
    has_row_locks: bool
    has_partitions: bool
    has_pipeline: bool
    only_schema: str | None  # the only possible schema of our own tables; None if any is possible

    def now(self, connection: Connection) -> datetime:
        """Return the time of the database's clock."""
        ...

    def begin_batch(self, connection: Connection, patience: LockPatience) -> None:
        """Set timeouts for the current transaction, and make it use index scans."""
        ...

    def read_only(self, connection: Connection) -> AbstractContextManager[None]:
        """Make transactions that begin within the block read-only."""
        ...

    def autocommit(self, connection: Connection) -> AbstractContextManager[None]:
        """Run each statement within the block in its own transaction."""
        ...

    def instant_in(self, span: timedelta) -> ColumnElement[Any]:
        """Return the database's time plus `span`, in the format of our own tables."""
        ...

    def serialise_setup(self, connection: Connection) -> None:
        """Let only one process at a time create our own tables."""
        ...

    def session(self) -> ColumnElement[str]:
        """Return an identifier of this session, with which `is_gone` can check whether it still exists."""
        ...

    def is_direct(self, connection: Connection, session: str) -> bool:
        """Whether it is the session of the original connection; behind a connection pooler it is another."""
        ...

    def is_gone(self, connection: Connection, session: str) -> bool:
        """Whether the session has certainly ended; False if this cannot be determined."""
        ...

    def failure(self, error: Exception) -> DriverFailure:
        """Classify an error of a batch."""
        ...

    def catalogue(self, connection: Connection, wanted: Sequence[Wanted] | None) -> Catalogue:
        """Read these tables and all tables that refer to them; None reads every application table."""
        ...

    def unchanged(self, marks: Mapping[TableName, str]) -> ColumnElement[bool]:
        """Return a condition for any statement: these tables are still as the catalogue described them."""
        ...

    def keep_tables(self, connection: Connection, tables: Sequence[TableName]) -> None:
        """Lock these tables against new keys, triggers and rules until the transaction ends."""
        ...

    def state_sight(self, connection: Connection, *, is_fresh: bool = True) -> StateTables:
        """Find the lifecycle's own tables in every schema, now or as of the connection's start."""
        ...

    def stored_type(self, declared: ColumnType) -> ColumnType:
        """Return the type for passing and reading values: converted, or as they are stored."""
        ...

    def row_identity(self, columns: Collection[str]) -> ColumnFacts | None:
        """Return the hidden column that identifies the rows of a table, or None; its columns may hide it."""
        ...

    def form_of(
        self, connection: Connection, table: TableFacts, column: ColumnFacts, *, unit: Unit | None
    ) -> Form:
        """Return how the column stores instants; raise ValueError if it cannot store one."""
        ...

    def access(self, connection: Connection, statement: Select[Any], table: TableFacts) -> AccessPath:
        """Return the access path to the table's rows with full scans disabled."""
        ...

    def estimated_rows(self, connection: Connection, table: TableFacts) -> int | None:
        """Estimate the number of rows without reading them; None if there is no estimate."""
        ...

    def counting(self, connection: Connection, longest: timedelta) -> AbstractContextManager[None]:
        """Limit the duration of each statement within the block; raise TimeoutError beyond it."""
        ...

    def kept(self, connection: Connection, rows: FromClause, names: Collection[str]) -> FromClause:
        """Return these columns of the rows; statements may read them repeatedly at little cost."""
        ...

    def size(self, connection: Connection, table: TableFacts) -> TableSize:
        """Return the size of the table."""
        ...

    def estimate(self, connection: Connection, table: TableFacts) -> TableSize | None:
        """Return the size of the table without a count of a large one; None: it cannot be estimated."""
        ...

    def pages_read(self, connection: Connection, table: TableName) -> int | None:
        """Return the number of the table's pages that this transaction read; None if they are not counted."""
        ...

    def replication_lag(self, connection: Connection) -> ReplicationLag:
        """Return the lag of the slowest standby."""
        ...

    def lock_waiters(self, connection: Connection, table: TableName) -> int:
        """Count the sessions that wait for a lock on the table."""
        ...

    def version_of_others(self, connection: Connection) -> int:
        """Return a number that changes when another connection commits; for databases with one write lock."""
        ...

    def partitions(self, connection: Connection, table: TableFacts, column: str) -> Sequence[Partition]:
        """Return the range partitions of the table by this column that have an upper bound."""
        ...

    def layout(self, connection: Connection, table: TableFacts) -> Layout:
        """How the table is partitioned."""
        ...

    def what_needs(self, connection: Connection, partition: TableName) -> str | None:
        """Return the dependency that prevents dropping the partition, as far as the catalogue shows it."""
        ...

    def lock_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        """Lock the partition exclusively until the transaction ends."""
        ...

    def drop_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        """Detach and drop one partition, giving way to other work."""
        ...

    def is_checked_singleton(self, connection: Connection, facts: TableFacts, column: str) -> bool:
        """Whether a check constraint pins the column's value."""
        ...
