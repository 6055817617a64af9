"""Errors of the lifecycle of application tables."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from gandy.errors.base import GandyError, message

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractProblem:
    """One problem of a maintenance contract, and its place."""

    message: str
    source: str = ""
    table: str = ""
    rule: str = ""
    field: str = ""

    def __str__(self) -> str:
        where = [self.source, self.table and f"table {self.table}", self.rule, self.field]
        return ": ".join([*(part for part in where if part), self.message])


class ContractInvalidError(GandyError, ValueError):
    """An invalid maintenance contract; every problem is listed."""

    exit_code = 2

    def __init__(self, problems: Sequence[ContractProblem]) -> None:
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"{count} in the maintenance contract, nothing was deleted:"]
        super().__init__("\n".join([*lines, *(f"  {problem}" for problem in problems)]))
        self.problems = tuple(problems)


class ContractRefusedError(ContractInvalidError):
    """A maintenance contract that does not match its database; every problem is listed."""

    exit_code = 1


class ContractUnknownError(GandyError, LookupError):
    """A contract without stored state in a database."""

    def __init__(self, scheduler: str, known: Sequence[str]) -> None:
        known_ones = f"it has {', '.join(known)}" if known else "it has none"
        super().__init__(f"this database has no state of a contract {scheduler}; {known_ones}")
        self.scheduler = scheduler
        self.known = tuple(known)


@message(
    "lifecycle {scheduler}: {problem}. Pass --target URL, or write database = {{ env = "
    '"APP_DATABASE_URL" }} in the contract'
)
class ContractTargetError(GandyError):
    """A contract without a database."""

    exit_code = 2

    scheduler: str
    problem: str


@message("no contract {scheduler!r}; `gandy lifecycle check` lists those of the application")
class ContractNotFoundError(GandyError, LookupError):
    """The application has no contract of this name."""

    exit_code = 2

    scheduler: str


@message("the lifecycle cannot keep its state: {problem}")
class StateObstructedError(GandyError):
    """The lifecycle cannot create or write its state tables, so it must not delete."""

    problem: str


@message(
    "the search_path of the application's database is {path}: a role that may create there can make "
    "this one call its operators. Remove pg_catalog from it, so that it is searched first "
    "(ALTER DATABASE ... SET search_path, ALTER ROLE ... SET search_path, or options= of the URL)"
)
class UnsafeSearchPathError(GandyError):
    """The names that a sweep uses would be resolved in another schema before pg_catalog."""

    path: str


@message("the command failed in the application's database: {problem}")
class TargetFaultError(GandyError):
    """A command failed in the application's database: a lock, a timeout, a file that is not a database."""

    problem: str


@message("table {table}: {rule}: {reason}")
class RuleRefusedError(GandyError):
    """A rule that must not delete at present; the other rules continue."""

    table: str
    rule: str
    reason: str


@message(
    "table {table}: {rule}: stopped after {rows} rows that cannot be deleted; the last error: "
    "{first_error}. See: gandy lifecycle quarantine"
)
class RowsStuckError(GandyError):
    """A rule was stopped because too many of its rows cannot be deleted."""

    table: str
    rule: str
    _: KW_ONLY
    rows: int
    first_error: str


@message("lifecycle {scheduler}: another process holds the lease now; this process stopped")
class SweepLeaseLostError(GandyError):
    """Another process took over the sweep; this process must not delete any more."""

    scheduler: str


@message("lifecycle {scheduler}: nothing could be swept: {problem}")
class ContractTickError(GandyError):
    """A contract of which no rule could be executed; the next tick tries again."""

    scheduler: str
    problem: str


@message("{needed_for}: the variable {variable}, which names the database, is not set here")
class MissingVariableError(GandyError):
    """The environment variable that names a database is not set where the job runs."""

    variable: str
    needed_for: str
