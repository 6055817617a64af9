"""Contracts and their tables, checked for rules that contradict each other."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from gandy.errors import ContractInvalidError, ContractProblem, ContractTargetError
from gandy.lifecycle.contract.fields import Fields, Span
from gandy.lifecycle.contract.names import GANDY, is_state_table
from gandy.lifecycle.contract.rules import Keep, Rule
from gandy.settings.bounds import BOUNDS, shown
from gandy.sweep import Budget, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gandy.lifecycle.contract.names import Reference


def own_problems(name: object, schema: object) -> Iterator[tuple[str, str]]:
    """Yield (field, problem) for Gandy's own tables, which no contract may bound."""
    if schema == GANDY:
        yield "schema", "Gandy bounds its own tables itself; see its settings"
    if is_state_table(str(name)):
        yield "name", "the lifecycle keeps its own state there, and bounds it itself"


def rule_problems(rules: tuple[Rule, ...]) -> Iterator[ContractProblem]:
    """Yield every contradiction between the rules of one table."""
    yield from (problem for rule in rules for other in rules if (problem := rule.clash(other)) is not None)
    yield from _said_twice(rules)
    if any(rule.deletes for rule in rules):
        excluding = {rule.kind: rule.excludes for rule in rules if rule.excludes}
        yield from (ContractProblem(rule=kind, message=message) for kind, message in excluding.items())


def _said_twice(rules: tuple[Rule, ...]) -> Iterator[ContractProblem]:
    seen: set[str] = set()
    for rule in rules:
        for key in rule.keys:
            if key in seen:
                yield ContractProblem(rule=rule.kind, message=f"{key} has two rules; remove one")
            seen.add(key)


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One table of the matrix."""

    scheduler: str
    table: str
    bounded_by: str
    prune_path: str
    safety: str


def matrix(contracts: Iterable[Contract]) -> tuple[MatrixRow, ...]:
    """One row for each table of the contracts."""
    return tuple(
        MatrixRow(
            scheduler=contract.name,
            table=table.label,
            bounded_by=bound_of(table),
            prune_path="; ".join(dict.fromkeys(_paths(contract, table))) or "none",
            safety=" ".join(dict.fromkeys(_sentences(table))),
        )
        for contract in contracts
        for table in contract.tables
    )


def matrix_markdown(contracts: Iterable[Contract]) -> str:
    """The matrix as a Markdown table."""
    lines = ["| Table | Bounded by | Prune path | Safety rule |", "|---|---|---|---|"]
    lines += [
        f"| {row.table} | {row.bounded_by} | {row.prune_path} | {row.safety} |" for row in matrix(contracts)
    ]
    return "\n".join(lines)


def bound_of(table: Table) -> str:
    """Describe the bounds of the table in one line."""
    return "; ".join(rule.bound for rule in table.rules if rule.bound)


def _paths(contract: Contract, table: Table) -> Iterator[str]:
    return filter(None, (rule.pruned_by(contract.name) for rule in table.rules))


def _sentences(table: Table) -> Iterator[str]:
    return (sentence for rule in table.rules for sentence in rule.sentences())


class ChildMode(StrEnum):
    """What happens to rows that refer to a deleted row."""

    DELETE_FIRST = "delete_first"
    CASCADE = "cascade"
    SET_NULL = "set_null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Conditions that make a sweep of this table hold between two batches."""

    replication_lag: timedelta | None = None
    lock_waiters: int | None = None
    ask: Callable[[], bool] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table, the rules that bound it, and the treatment of rows that refer to its rows."""

    name: str
    rules: Sequence[Rule]
    schema: str | None = None
    children: Mapping[str, str] = field(default_factory=dict)
    throttle: Throttle = field(default_factory=Throttle)
    triggers: Sequence[str] = ()  # that may fire on a deletion: `name`, or `table.name` for a child

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
    def keeps(self) -> tuple[Keep, ...]:
        """Its `keep` rules."""
        return tuple(rule for rule in self.rules if isinstance(rule, Keep))

    @property
    def only_keeps(self) -> bool:
        """Whether the table has `keep` rules only."""
        return len(self.keeps) == len(self.rules)

    @property
    def label(self) -> str:
        """The name, with its schema if one is declared."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def child_modes(self) -> tuple[tuple[Reference, ChildMode], ...]:
        """The children, parsed."""
        read = ((Fields().reference("children", child), mode) for child, mode in self.children.items())
        return tuple((reference, ChildMode(mode)) for reference, mode in read if reference is not None)

    @property
    def related(self) -> Iterator[tuple[str | None, str]]:
        """The schemas and names of the tables that its children and rules name."""
        children = (reference for reference, _ in self.child_modes)
        read = (reference for rule in self.rules for reference in rule.reads)
        for reference in (*children, *read):
            yield reference.schema or self.schema, reference.table


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
        """Where the contract is declared, for messages."""
        name = self.name if BOUNDS["name"].holds(self.name) else shown(self.name)
        return f"{self.source}: lifecycle.{name}" if self.source else f"lifecycle.{name}"

    @property
    def interval(self) -> timedelta:
        """The time between two ticks of the contract."""
        assert isinstance(self.every, timedelta)  # noqa: S101  # __post_init__ parsed it
        return self.every

    def target(self, given: str | None = None) -> str:
        """Return the database URL: `given`, the contract's own, or that of its environment variable."""
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
    """Return the contracts; raise an error if two of them bound the same table of a database."""
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
    """Return the problems with their location filled in."""
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
