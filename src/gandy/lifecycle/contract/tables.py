"""A contract: tables with their rules under one scheduler's name."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from gandy.errors import ContractInvalidError, ContractProblem, ContractTargetError
from gandy.lifecycle.contract.consistency import own_problems, rule_problems
from gandy.lifecycle.contract.fields import Fields, Span
from gandy.lifecycle.contract.names import GANDY
from gandy.lifecycle.contract.rules import Keep
from gandy.settings.bounds import BOUNDS, shown
from gandy.sweep import Budget, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gandy.lifecycle.contract.rules import Reference, Rule


class ChildMode(StrEnum):
    """What happens to rows that refer to a row that goes."""

    DELETE_FIRST = "delete_first"
    CASCADE = "cascade"
    SET_NULL = "set_null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """What makes a sweep of this table hold between two batches."""

    replication_lag: timedelta | None = None
    lock_waiters: int | None = None
    ask: Callable[[], bool] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table, the rules that bound it, and what becomes of rows that refer to its rows."""

    name: str
    rules: Sequence[Rule]
    schema: str | None = None
    children: Mapping[str, str] = field(default_factory=dict)
    throttle: Throttle = field(default_factory=Throttle)
    triggers: Sequence[str] = ()  # that may fire when rows go: `name`, or `table.name` for a child's

    def __post_init__(self) -> None:
        fields = Fields()
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "triggers", fields.names("triggers", self.triggers))
        fields.name("name", self.name)
        for field_name, reason in own_problems(self.name, self.schema):
            fields.note(field_name, reason)
        if not self.rules:
            fields.note("rules", "a table needs at least one rule")
        for child, mode in self.children.items():
            fields.reference("children", child)
            fields.choice("children", mode, ChildMode)
        fields.problems.extend(rule_problems(tuple(self.rules)))
        fields.raise_if_wrong()

    @property
    def only_keeps(self) -> bool:
        """Whether the table is declared for its holds alone."""
        return all(isinstance(rule, Keep) for rule in self.rules)

    @property
    def label(self) -> str:
        """The name as people write it."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def child_modes(self) -> tuple[tuple[Reference, ChildMode], ...]:
        """The children, read."""
        read = ((Fields().reference("children", child), mode) for child, mode in self.children.items())
        return tuple((reference, ChildMode(mode)) for reference, mode in read if reference is not None)


_USUAL_SCHEMA = "public"
DEFAULT_EVERY = timedelta(minutes=5)
DEFAULT_BUDGET = Budget(rows=1_000_000, time=timedelta(minutes=2))


@dataclass(frozen=True, slots=True)
class Contract:
    """A set of tables that one supervisor keeps bounded; its name is the scheduler label."""

    name: str
    tables: Sequence[Table]
    every: Span = DEFAULT_EVERY
    database: str | None = field(default=None, repr=False)  # may hold a password
    database_env: str | None = None
    batch: Pace = field(default_factory=Pace)
    budget: Budget = DEFAULT_BUDGET
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(self.tables))
        fields = Fields()
        if problem := BOUNDS["name"].problem("it", self.name):
            fields.note("name", problem)
        if str(self.name).casefold() == GANDY:
            fields.note("name", f"{self.name} is the scheduler of Gandy's own tables; choose another name")
        object.__setattr__(self, "every", fields.span("every", self.every))
        seen: set[str] = set()
        for table in self.tables:
            if table.label in seen:
                fields.note("tables", f"{table.label} is declared twice; put its rules together")
            seen.add(table.label)
        if not self.tables:
            fields.note("tables", "a contract needs at least one table")
        if fields.problems:
            raise ContractInvalidError(located(fields.problems, source=self.where))

    @property
    def where(self) -> str:
        """Where the contract is written, for messages."""
        name = self.name if BOUNDS["name"].holds(self.name) else shown(self.name)
        return f"{self.source}: lifecycle.{name}" if self.source else f"lifecycle.{name}"

    @property
    def interval(self) -> timedelta:
        """How often the contract is to be kept."""
        assert isinstance(self.every, timedelta)  # noqa: S101  # __post_init__ read it
        return self.every

    def target(self, given: str | None = None) -> str:
        """The database to keep: the one given, the contract's own, or the one its variable names."""
        if given is not None:
            return given
        if self.database is not None:
            return self.database
        if self.database_env is None:
            raise ContractTargetError(self.name, "no database is named")
        url = os.environ.get(self.database_env)
        if not url:
            raise ContractTargetError(self.name, f"the variable {self.database_env} is not set")
        return url


def gathered(contracts: Iterable[Contract], target: str | None = None) -> tuple[Contract, ...]:
    """The contracts of one file or application; raises where two of them bound one table of a database."""
    found = tuple(contracts)
    seen: dict[object, Contract] = {}
    problems = []
    for contract in found:
        for table in contract.tables:
            if table.only_keeps:
                continue
            database = target or (contract.database, contract.database_env)
            first = seen.setdefault((database, table.schema or _USUAL_SCHEMA, table.name), contract)
            if first is not contract:
                message = f"is bounded by the contract {first.name} already; put its rules together there"
                problems.append(ContractProblem(message=message, source=contract.where, table=table.label))
    if problems:
        raise ContractInvalidError(problems)
    return found


def located(problems: Sequence[ContractProblem], *, source: str, table: str = "") -> list[ContractProblem]:
    """The same problems, with the place they were found in."""
    return [
        ContractProblem(
            message=problem.message,
            source=problem.source or source,
            table=problem.table or table,
            rule=problem.rule,
            field=problem.field,
        )
        for problem in problems
    ]
