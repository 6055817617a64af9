"""What must hold between the rules of one table, before any database is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from gandy.errors import ContractProblem
from gandy.lifecycle.contract.names import GANDY, is_state_table
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

if TYPE_CHECKING:
    from collections.abc import Iterator


def kind_of(rule: Rule) -> str:
    """The word that a contract uses for the rule."""
    if isinstance(rule, Cap):
        return rule.kind
    words: dict[type[Rule], str] = {
        Expires: "expires",
        OlderThan: "older_than",
        Terminal: "terminal",
        StaleCursor: "stale_cursor",
        Singleton: "singleton",
        Inline: "inline",
        Keep: "keep",
        DropPartition: "drop_partition",
    }
    return words[type(rule)]


def keys_of(rule: Rule) -> tuple[str, ...]:
    """Names that tell the rules of one table apart; what is remembered about a rule goes by them."""
    match rule:
        case Terminal():
            return tuple(f"terminal:{rule.column}={state}:{rule.at}" for state in rule.states)
        case Cap():
            return (f"{rule.kind}:{','.join(rule.per)}:{rule.order_by}",)
        case Inline():
            return (f"inline:{rule.path}",)
        case Keep():
            return (f"keep:{rule.column}={rule.equals}",)
        case Expires() | OlderThan() | StaleCursor() | Singleton() | DropPartition():
            return (f"{kind_of(rule)}:{rule.column}",)
        case _:
            assert_never(rule)


def own_problems(name: object, schema: object) -> Iterator[tuple[str, str]]:
    """Tables that no contract may bound, by the field that names them."""
    if schema == GANDY:
        yield "schema", "Gandy bounds its own tables itself; see its settings"
    if is_state_table(str(name)):
        yield "name", "the lifecycle keeps its own state there, and bounds it itself"


def rule_problems(rules: tuple[Rule, ...]) -> Iterator[ContractProblem]:
    """Everything that the rules of one table contradict each other in."""
    yield from _states_deleted_twice(rules)
    yield from _said_twice(rules)
    if any(isinstance(rule, Singleton) for rule in rules) and any(_deletes(rule) for rule in rules):
        yield ContractProblem(
            rule="singleton", message="says that the key bounds the table; remove the rules that delete"
        )


def _deletes(rule: Rule) -> bool:
    return not isinstance(rule, Singleton | Inline | Keep)


def _states_deleted_twice(rules: tuple[Rule, ...]) -> Iterator[ContractProblem]:
    """What the application deletes on its own path must not be pruned a second time."""
    for inline in rules:
        if not isinstance(inline, Inline) or not inline.states:
            continue
        for rule in rules:
            if not _deletes(rule):
                continue
            if not isinstance(rule, Terminal):
                message = (
                    f"takes rows of every state, but {inline.path!r} already deletes {list(inline.states)}"
                )
                yield ContractProblem(rule=kind_of(rule), message=message)
            elif rule.column == inline.column and (both := set(rule.states) & set(inline.states)):
                message = (
                    f"{sorted(map(str, both))} is already deleted by {inline.path!r}; remove it from one"
                )
                yield ContractProblem(rule="terminal", field="states", message=message)


def _said_twice(rules: tuple[Rule, ...]) -> Iterator[ContractProblem]:
    seen: set[str] = set()
    for rule in rules:
        for key in keys_of(rule):
            if key in seen:
                yield ContractProblem(rule=kind_of(rule), message=f"{key} has two rules; which one holds?")
            seen.add(key)
