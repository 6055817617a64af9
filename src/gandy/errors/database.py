"""Errors of databases and of clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.errors.base import GandyError, message

if TYPE_CHECKING:
    from datetime import datetime, timedelta


_LOOK_AROUND: Final = "check the role's privileges and the schema (gandy migrate --check, gandy doctor)"


@message("database URL {url!r}: {problem}. Use postgresql://user@host/name or sqlite:///path/to/file.db")
class DatabaseUrlError(GandyError):
    """A database URL that Gandy cannot use."""

    exit_code = 2

    url: str
    problem: str


class DatabaseFaultError(GandyError):
    """A temporary or general fault of the database, not caused by a single item: retry later."""


@message("cannot reach the database {url}: {problem}")
class DatabaseUnreachableError(DatabaseFaultError):
    """The database did not answer, or its file cannot be opened."""

    url: str
    problem: str


class SchemaBehindError(GandyError):
    """The database's schema is older than this code needs."""

    def __init__(self, found: int, needed: int) -> None:
        what = "has no Gandy tables" if found == 0 else f"is at schema version {found}"
        super().__init__(f"the database {what}, this code needs version {needed}; run: gandy migrate")
        self.found = found
        self.needed = needed


@message(
    "the database is at schema version {found}, which needs code for version "
    "{compatible_from} or later; this code supports {known}: upgrade gandy on this server"
)
class CodeTooOldError(GandyError):
    """The database was migrated to a schema that this code does not support."""

    found: int
    compatible_from: int
    known: int


@message("refused by {constraint}: {detail}")
class RowConflictError(GandyError):
    """The database refused this item, by a constraint or a trigger, or because it cannot store a value."""

    constraint: str
    detail: str


@message("connection={found}: {problem}")
class BorrowedConnectionError(GandyError):
    """A connection of the caller that Gandy cannot use."""

    exit_code = 2

    found: str
    problem: str


@message("the database is busy: {problem}; try again")
class DatabaseBusyError(DatabaseFaultError):
    """A lock timeout, a deadlock or a serialization failure; the same call may succeed later."""

    problem: str


class RowBusyError(DatabaseBusyError):
    """A row was locked for too long, or its transaction lost a deadlock; its retry may fail again."""


@message("the database is read-only: {problem}; nothing was written: services try again, a command does not")
class DatabaseReadOnlyError(DatabaseFaultError):
    """The database is read-only, as a standby or during a failover."""

    problem: str


@message("the database is full: {problem}; free some resources: services try again, a command does not")
class DatabaseFullError(DatabaseFaultError):
    """The database ran out of disk, memory or connections."""

    problem: str


@message("the database refused the statement: {problem}; {remedy}")
class DatabaseRefusedError(DatabaseFaultError):
    """The database refused a whole statement: a missing privilege, table or column."""

    problem: str
    remedy: str = _LOOK_AROUND


@message("{address}: SQLite has no roles; write access to the file grants everything")
class NoRolesError(GandyError):
    """A command about roles, for a database without roles."""

    exit_code = 2

    address: str


@message("all {count} items of a set were refused with the same error: {problem}")
class SetRefusedError(DatabaseFaultError):
    """Every item of a set was refused with the same error, so that no single item is the cause."""

    count: int
    problem: str


class NaiveInstantError(GandyError, ValueError):
    """An instant without a time zone."""

    def __init__(self, instant: datetime) -> None:
        super().__init__(
            f"{instant.isoformat()} has no time zone; use an aware one such as datetime.now(UTC)"
        )
        self.instant = instant


@message("a clock cannot be advanced by {span}; use zero or more")
class ClockReversedError(GandyError, ValueError):
    """A manual clock was advanced by a negative duration."""

    span: timedelta


@message(
    "nothing is removed: {doubt}; correct the clock, leave a service running for ten minutes, "
    "or confirm the clock with --yes"
)
class ClockDoubtedError(GandyError):
    """The clock cannot be trusted, so that nothing is deleted by age."""

    doubt: str


@message(
    "{address} has jobs of {owners}; a harness needs an empty database, so that no test touches other jobs"
)
class DatabaseInUseError(GandyError):
    """The database of a test has rows of applications."""

    address: str
    owners: str
