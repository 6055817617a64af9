"""The maintenance matrix: what bounds each table, who prunes it, and which safety rule holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from gandy.lifecycle.contract.consistency import kind_of
from gandy.lifecycle.contract.rules import (
    Cap,
    DropPartition,
    Expires,
    Inline,
    Keep,
    OlderThan,
    Rule,
    Singleton,
    StaleCursor,
    Terminal,
)
from gandy.settings.values import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gandy.lifecycle.contract.tables import Contract, Table


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
    """What bounds the table, in one line."""
    return "; ".join(text for rule in table.rules if (text := rule_bound(rule)))


def rule_bound(rule: Rule) -> str:  # noqa: PLR0911  # one sentence for each rule
    """What the rule says in words."""
    match rule:
        case Expires():
            grace = f" plus {format_duration(rule.grace)}" if rule.grace else ""
            return f"{rule.column} has passed{grace}"
        case OlderThan():
            return f"{rule.column} older than {format_duration(rule.keep_for)}"
        case Terminal():
            ages = ", ".join(f"{state} {format_duration(span)}" for state, span in rule.keep_for)
            return f"{rule.column} final since {rule.at}: {ages}"
        case Cap():
            per = f" per {', '.join(rule.per)}" if rule.per else ""
            return f"the newest {rule.rows}{per} by {rule.order_by}"
        case StaleCursor():
            return f"{rule.column} still for {format_duration(rule.keep_for)} and {rule.log} pruned past it"
        case Singleton():
            return f"singleton key {rule.column}"
        case Inline():
            states = f" ({', '.join(map(str, rule.states))})" if rule.states else ""
            return f"deleted by {rule.path}{states}"
        case Keep():
            return ""
        case DropPartition():
            return f"partitions of {rule.column} older than {format_duration(rule.keep_for)}"
        case _:
            assert_never(rule)


def rule_label(rule: Rule) -> str:
    """A short name for a rule, as events and errors use it."""
    match rule:
        case Cap():
            return f"{rule.kind} {rule.rows}"
        case Singleton() | Keep() | Expires() | OlderThan() | StaleCursor() | DropPartition():
            return f"{kind_of(rule)} {rule.column}"
        case Terminal():
            return f"terminal {rule.column} {', '.join(map(str, rule.states))}"
        case Inline():
            return f"inline {rule.path}"
        case _:
            assert_never(rule)


def _paths(contract: Contract, table: Table) -> Iterator[str]:
    for rule in table.rules:
        if isinstance(rule, Inline):
            yield rule.path
        elif not isinstance(rule, Singleton | Keep):
            yield f"{contract.name} sweep"


def _sentences(table: Table) -> Iterator[str]:
    for rule in table.rules:
        if rule.words.safety:
            yield f"{rule.words.safety.rstrip('.')}."
        if rule.words.lost_by_design:
            yield f"Lost by design: {rule.words.lost_by_design.rstrip('.')}."
        if isinstance(rule, Keep):
            yield f"Rows with {rule.column} = {rule.equals!r} are kept."
        if not isinstance(rule, Singleton | Inline | Keep | DropPartition) and rule.wait_for:
            yield f"Waits for {', '.join(map(str, rule.wait_for))}."
