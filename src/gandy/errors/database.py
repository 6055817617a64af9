"""Errors of databases and of clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from datetime import datetime, timedelta


_LOOK_AROUND: Final = "check the role's privileges and the schema (gandy migrate --check, gandy doctor)"


class DatabaseUrlError(GandyError):
    """A database URL that Gandy cannot use."""

    exit_code = 2

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            f"database URL {url!r}: {problem}. Use postgresql://user@host/name or sqlite:///path/to/file.db"
        )
        self.url = url
        self.problem = problem


class DatabaseFaultError(GandyError):
    """A temporary or general fault of the database, not caused by a single item: retry later."""


class DatabaseUnreachableError(DatabaseFaultError):
    """The database did not answer, or its file cannot be opened."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"cannot reach the database {url}: {problem}")
        self.url = url
        self.problem = problem


class SchemaBehindError(GandyError):
    """The database's schema is older than this code needs."""

    def __init__(self, found: int, needed: int) -> None:
        what = "has no Gandy tables" if found == 0 else f"is at schema version {found}"
        super().__init__(f"the database {what}, this code needs version {needed}; run: gandy migrate")
        self.found = found
        self.needed = needed


class CodeTooOldError(GandyError):
    """The database was migrated to a schema that this code does not support."""

    def __init__(self, found: int, compatible_from: int, known: int) -> None:
        super().__init__(
            f"the database is at schema version {found}, which needs code for version "
            f"{compatible_from} or later; this code supports {known}: upgrade gandy on this server"
        )
        self.found = found
        self.compatible_from = compatible_from
        self.known = known


class RowConflictError(GandyError):
    """The database refused this item, by a constraint or a trigger, or because it cannot store a value."""

    def __init__(self, constraint: str, detail: str) -> None:
        super().__init__(f"refused by {constraint}: {detail}")
        self.constraint = constraint
        self.detail = detail


class BorrowedConnectionError(GandyError):
    """A connection of the caller that Gandy cannot use."""

    exit_code = 2

    def __init__(self, found: str, problem: str) -> None:
        super().__init__(f"connection={found}: {problem}")
        self.found = found
        self.problem = problem


class DatabaseBusyError(DatabaseFaultError):
    """A lock timeout, a deadlock or a serialization failure; the same call may succeed later."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the database is busy: {problem}; try again")
        self.problem = problem


class RowBusyError(DatabaseBusyError):
    """A row was locked for too long, or its transaction lost a deadlock; its retry may fail again."""


class DatabaseReadOnlyError(DatabaseFaultError):
    """The database is read-only, as a standby or during a failover."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the database is read-only: {problem}; nothing is lost, the write is retried")
        self.problem = problem


class DatabaseFullError(DatabaseFaultError):
    """The database ran out of disk, memory or connections."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the database is full: {problem}; free some resources, the write is retried")
        self.problem = problem


class DatabaseRefusedError(DatabaseFaultError):
    """The database refused a whole statement: a missing privilege, table or column."""

    def __init__(self, problem: str, remedy: str = _LOOK_AROUND) -> None:
        super().__init__(f"the database refused the statement: {problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy


class NoRolesError(GandyError):
    """A command about roles, for a database without roles."""

    exit_code = 2

    def __init__(self, address: str) -> None:
        super().__init__(f"{address}: SQLite has no roles; write access to the file grants everything")


class SetRefusedError(DatabaseFaultError):
    """Every item of a set was refused with the same error, so that no single item is the cause."""

    def __init__(self, count: int, problem: str) -> None:
        super().__init__(f"all {count} items of a set were refused with the same error: {problem}")
        self.count = count
        self.problem = problem


class NaiveInstantError(GandyError, ValueError):
    """An instant without a time zone."""

    def __init__(self, instant: datetime) -> None:
        super().__init__(
            f"{instant.isoformat()} has no time zone; use an aware one such as datetime.now(UTC)"
        )
        self.instant = instant


class ClockReversedError(GandyError, ValueError):
    """A manual clock was advanced by a negative duration."""

    def __init__(self, span: timedelta) -> None:
        super().__init__(f"a clock cannot be advanced by {span}; use zero or more")
        self.span = span


class ClockDoubtedError(GandyError):
    """The clock cannot be trusted, so that nothing is deleted by age."""

    def __init__(self, doubt: str) -> None:
        super().__init__(
            f"nothing is removed: {doubt}; correct the clock, leave a service running for ten minutes, "
            "or confirm the clock with --yes"
        )
        self.doubt = doubt
