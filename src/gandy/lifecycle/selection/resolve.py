"""Resolving a contract against a database: every rule becomes walks, or findings that say why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

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
from gandy.lifecycle.selection.children import NotCoveredError
from gandy.lifecycle.selection.columns import ColumnReader, UnjudgedError, WrongFieldError
from gandy.lifecycle.selection.findings import Severity
from gandy.lifecycle.selection.holds import is_held
from gandy.lifecycle.selection.obstacles import ObstructedError, unknown_triggers
from gandy.lifecycle.selection.resolved import Resolved
from gandy.lifecycle.selection.shapes import RuleShaper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import SchemaFacts


def resolve(
    contract: Contract,
    connection: Connection,
    *,
    dialect: Dialect,
    schema: SchemaFacts,
    contracts: Sequence[Contract] = (),
) -> list[Resolved]:
    """Every rule of the contract, in the order it is declared."""
    rules = [Resolved(contract, table, rule) for table in contract.tables for rule in table.rules]
    for resolved in rules:
        facts = schema.find(resolved.declared.name, resolved.declared.schema)
        if facts is None:
            resolved.note(Severity.WRONG, "there is no such table in this database", field="name")
        else:
            reader = ColumnReader(connection, dialect, facts)
            _fill(RuleShaper(resolved, schema, reader, tuple(contracts) or (contract,)))
    return rules


def tables_of(contract: Contract) -> Iterator[tuple[str | None, str]]:
    """Every table that the contract names, in whatever place."""
    for table in contract.tables:
        yield table.schema, table.name
        for reference, _ in table.child_modes:
            yield reference.schema or table.schema, reference.table
        for rule in table.rules:
            if isinstance(rule, StaleCursor):
                yield table.schema, rule.log
            if isinstance(rule, Expires | OlderThan | Terminal | Cap | StaleCursor):
                for reference in rule.wait_for:
                    yield reference.schema or table.schema, reference.table


def _fill(shaper: RuleShaper) -> None:
    """Shape the rule; what does not fit becomes a finding."""
    try:
        shaper.obstacles.judge_reading()
        _shape(shaper, shaper.resolved.rule)
    except UnjudgedError as error:
        shaper.resolved.note(Severity.REFUSED, str(error), field=error.field)
    except WrongFieldError as error:
        shaper.resolved.note(Severity.WRONG, str(error), field=error.field)
    except LookupError as error:
        shaper.resolved.note(Severity.WRONG, str(error.args[0]), field="wait_for")
    except NotCoveredError as error:
        shaper.resolved.note(Severity.REFUSED, str(error), field="children")
    except ObstructedError as error:
        for obstacle in error.obstacles:
            shaper.resolved.note(
                Severity.REFUSED, obstacle.message, field=obstacle.field, remedy=obstacle.remedy
            )
    for trigger in unknown_triggers(shaper.resolved.declared, shaper.schema):
        shaper.resolved.note(
            Severity.WARNING, f"there is no DELETE trigger {trigger} any more", field="triggers"
        )


def _shape(shaper: RuleShaper, rule: Rule) -> None:
    match rule:
        case Expires() | OlderThan() | Terminal() | StaleCursor() | Cap():
            shaper.resolved.walks = tuple(shaper.walks(rule))
        case DropPartition():
            shaper.resolved.walks = (shaper.partitions(rule),)
        case Inline():
            shaper.resolved.watch = shaper.watch(rule)
        case Singleton():
            shaper.check_singleton(rule)
        case Keep():
            shaper.reader.find("keep", rule.column)
            is_held(shaper.facts.clause, rule)
        case _:
            assert_never(rule)
