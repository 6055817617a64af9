"""What can stop the lifecycle of application tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractProblem:
    """One thing that is wrong with a maintenance contract, and where it is written."""

    message: str
    source: str = ""
    table: str = ""
    rule: str = ""
    field: str = ""

    def __str__(self) -> str:
        where = [self.source, self.table and f"table {self.table}", self.rule, self.field]
        return ": ".join([*(part for part in where if part), self.message])


class ContractInvalidError(GandyError, ValueError):
    """A maintenance contract that cannot be used as it is written; every problem is listed."""

    exit_code = 2

    def __init__(self, problems: Sequence[ContractProblem]) -> None:
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"{count} in the maintenance contract, nothing was deleted:"]
        super().__init__("\n".join([*lines, *(f"  {problem}" for problem in problems)]))
        self.problems = tuple(problems)


class ContractRefusedError(ContractInvalidError):
    """A maintenance contract that does not fit the database it is for; every problem is listed."""

    exit_code = 1


class ContractUnknownError(GandyError, LookupError):
    """A contract of which a database remembers nothing."""

    def __init__(self, scheduler: str, known: Sequence[str]) -> None:
        known_ones = f"it remembers {', '.join(known)}" if known else "it remembers none"
        super().__init__(f"this database remembers nothing of a contract {scheduler}; {known_ones}")
        self.scheduler = scheduler
        self.known = tuple(known)


class ContractTargetError(GandyError):
    """A contract without a database to keep."""

    exit_code = 2

    def __init__(self, scheduler: str, problem: str) -> None:
        super().__init__(
            f"lifecycle {scheduler}: {problem}. Pass --target URL, or write database = {{ env = "
            '"APP_DATABASE_URL" } in the contract'
        )
        self.scheduler = scheduler
        self.problem = problem


class ContractNotFoundError(GandyError, LookupError):
    """The application has no contract of this name."""

    exit_code = 2

    def __init__(self, scheduler: str) -> None:
        super().__init__(f"no contract {scheduler!r}; `gandy lifecycle check` names those of the application")
        self.scheduler = scheduler


class StateObstructedError(GandyError):
    """The lifecycle may not make or write the tables of its own state, so it may not delete either."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the lifecycle cannot keep its state: {problem}")
        self.problem = problem


class UnsafeSearchPathError(GandyError):
    """The names that a sweep uses would be looked up in a schema of others before PostgreSQL's own."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the search_path of the application's database is {path}: a role that may create there can have "
            "this one call its operators. Leave pg_catalog out of it, so that it is searched first "
            "(ALTER DATABASE ... SET search_path, ALTER ROLE ... SET search_path, or options= of the URL)"
        )
        self.path = path


class TargetFaultError(GandyError):
    """The application's database stopped a command: a lock, a timeout, a file that is no database."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the application's database stopped the command: {problem}")
        self.problem = problem


class RuleRefusedError(GandyError):
    """A rule that may not delete here and now; the others go on."""

    def __init__(self, table: str, rule: str, reason: str) -> None:
        super().__init__(f"table {table}: {rule}: {reason}")
        self.table = table
        self.rule = rule
        self.reason = reason


class RowsStuckError(GandyError):
    """So many rows of one rule cannot be deleted that the rule was stopped."""

    def __init__(self, table: str, rule: str, *, rows: int, first_error: str) -> None:
        super().__init__(
            f"table {table}: {rule}: stopped after {rows} rows that cannot be deleted; the last one said: "
            f"{first_error}. See: gandy lifecycle quarantine"
        )
        self.table = table
        self.rule = rule
        self.rows = rows
        self.first_error = first_error


class SweepLeaseLostError(GandyError):
    """Another process took over the sweep; this one may delete nothing more."""

    def __init__(self, scheduler: str) -> None:
        super().__init__(f"lifecycle {scheduler}: another process holds the lease now; this one stopped")
        self.scheduler = scheduler


class ContractTickError(GandyError):
    """A contract of which no rule could be kept this time; the next tick tries again."""

    def __init__(self, scheduler: str, problem: str) -> None:
        super().__init__(f"lifecycle {scheduler}: nothing could be swept: {problem}")
        self.scheduler = scheduler
        self.problem = problem


class MissingVariableError(GandyError):
    """A database is named by an environment variable that is not set where the job runs."""

    def __init__(self, variable: str, needed_for: str) -> None:
        super().__init__(f"{needed_for}: the variable {variable}, which names the database, is not set here")
        self.variable = variable
        self.needed_for = needed_for
