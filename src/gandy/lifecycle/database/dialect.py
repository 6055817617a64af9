"""What the lifecycle asks of a database; each kind answers in a module of its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import ColumnElement, Connection, Select

    from gandy.lifecycle.contract.rules import Unit
    from gandy.lifecycle.database.facts import (
        Catalogue,
        ColumnFacts,
        ColumnType,
        TableFacts,
        TableName,
        Wanted,
    )
    from gandy.lifecycle.database.instants import Form
    from gandy.lifecycle.database.state_sight import StateSight


class DriverFailure(StrEnum):
    """Why a batch did not go through."""

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
    is_in_order: bool = True  # the index alone leads to any place in the statement's order


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows (an estimate where counting would cost) and bytes (None where unknown)."""

    rows: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition and the value that all its rows lie below; rows is an estimate."""

    name: TableName
    bound: str
    rows: int
    number: int = 0  # the same while it is the same table, whatever its name is


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is partitioned."""

    key: str  # as the database writes it
    column: str | None  # of a RANGE over this one column; None for any other way
    endless: tuple[TableName, ...] = ()  # partitions that hold rows and end nowhere


@dataclass(frozen=True, slots=True)
class ReplicationLag:
    """How far the slowest standby is behind, as far as the role may see it."""

    slowest: timedelta = timedelta(0)
    hidden: int = 0  # standbys whose lag the role may not see
    remedy: str = ""

    def __str__(self) -> str:
        standbys = "a standby" if self.hidden == 1 else f"{self.hidden} standbys"
        return f"the role may not see the replication lag of {standbys}, which the throttle asks for"


class Dialect(Protocol):
    """One kind of database."""

    name: str
    has_row_locks: bool
    has_partitions: bool
    has_pipeline: bool
    only_schema: str | None  # the one that can hold our own tables, where there is no choice

    def now(self, connection: Connection) -> datetime:
        """The database's own clock."""
        ...

    def begin_batch(self, connection: Connection, patience: LockPatience) -> None:
        """Limit the running transaction, and make it walk indexes."""
        ...

    def read_only(self, connection: Connection) -> AbstractContextManager[None]:
        """Let transactions that begin within only read."""
        ...

    def autocommit(self, connection: Connection) -> AbstractContextManager[None]:
        """Let each statement within be a transaction of its own."""
        ...

    def instant_in(self, span: timedelta) -> ColumnElement[Any]:
        """The instant so far ahead by the database's clock, as our own tables store it."""
        ...

    def serialise_setup(self, connection: Connection) -> None:
        """Let one replica at a time make our own tables."""
        ...

    def session(self) -> ColumnElement[str]:
        """A name for this session that tells whether it is still there."""
        ...

    def is_direct(self, connection: Connection, session: str) -> bool:
        """Whether the session is the one that was connected to; behind a pooler it is another."""
        ...

    def is_gone(self, connection: Connection, session: str) -> bool:
        """Whether the session certainly ended; False where nobody can tell."""
        ...

    def failure(self, error: Exception) -> DriverFailure:
        """Whose fault an error is."""
        ...

    def catalogue(self, connection: Connection, wanted: Sequence[Wanted] | None) -> Catalogue:
        """These tables and all that refer to them, or every application table for None."""
        ...

    def unchanged(self, marks: Mapping[TableName, str]) -> ColumnElement[bool]:
        """Whether these tables are still as the catalogue described them, within any statement."""
        ...

    def keep_tables(self, connection: Connection, tables: Sequence[TableName]) -> None:
        """Let none of these tables get a key, a trigger or a rule until the transaction ends."""
        ...

    def state_sight(self, connection: Connection, *, is_fresh: bool = True) -> StateSight:
        """The lifecycle's own tables, in every schema; as of the connection's start where that is enough."""
        ...

    def stored_type(self, declared: ColumnType) -> ColumnType:
        """How values of a column are passed and read: converted, or as they are stored."""
        ...

    def row_identity(self) -> ColumnFacts | None:
        """The hidden column that tells rows apart where a table has no key."""
        ...

    def form_of(
        self, connection: Connection, table: TableFacts, column: ColumnFacts, *, unit: Unit | None
    ) -> Form:
        """How the column writes instants; raises ValueError where it cannot hold one."""
        ...

    def access(self, connection: Connection, statement: Select[Any], table: TableFacts) -> AccessPath:
        """How the table's rows would be found if scanning it whole were discouraged."""
        ...

    def estimated_rows(self, connection: Connection, table: TableFacts) -> int | None:
        """About how many rows the table holds, without reading them; None where nothing says."""
        ...

    def counting(self, connection: Connection, longest: timedelta) -> AbstractContextManager[None]:
        """Let no statement within take longer; raises TimeoutError where one does."""
        ...

    def size(self, connection: Connection, table: TableFacts) -> TableSize:
        """How large the table is."""
        ...

    def pages_read(self, connection: Connection, table: TableName) -> int | None:
        """A counter of the pages that this transaction read of the table; None where nobody counts."""
        ...

    def replication_lag(self, connection: Connection) -> ReplicationLag:
        """How far the slowest standby is behind."""
        ...

    def lock_waiters(self, connection: Connection, table: TableName) -> int:
        """How many sessions wait for a lock on the table."""
        ...

    def version_of_others(self, connection: Connection) -> int:
        """A number that a commit of another connection changes; asked where there is one write lock."""
        ...

    def partitions(self, connection: Connection, table: TableFacts, column: str) -> Sequence[Partition]:
        """The range partitions of the table by this column that end somewhere."""
        ...

    def layout(self, connection: Connection, table: TableFacts) -> Layout:
        """How the table is partitioned."""
        ...

    def what_needs(self, connection: Connection, partition: TableName) -> str | None:
        """What the database would refuse to drop the partition for, as far as the catalogue tells."""
        ...

    def lock_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        """Keep all others away from the partition until the transaction ends."""
        ...

    def drop_partition(self, connection: Connection, table: TableName, partition: TableName) -> None:
        """Detach and drop one partition, giving way to other work."""
        ...

    def is_checked_singleton(self, connection: Connection, facts: TableFacts, column: str) -> bool:
        """Whether a check constraint pins the column's value."""
        ...
