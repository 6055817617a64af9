"""Resolve the rules of a contract against a database."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, or_, select
from sqlalchemy.exc import SQLAlchemyError

from gandy.errors import GandyError
from gandy.lifecycle.database.facts import SchemaFacts, TableFacts, table_clause
from gandy.lifecycle.database.failures import unexpected
from gandy.lifecycle.selection.children import ColumnReader, NotCoveredError, UnjudgedError, WrongFieldError
from gandy.lifecycle.selection.findings import ObstructedError, RuleFinding, Severity, unknown_triggers
from gandy.lifecycle.selection.shapes import RuleShaper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gandy.lifecycle.contract.rules import Rule
    from gandy.lifecycle.contract.tables import Contract, Table
    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.selection.walks import InlineWatch, Walk


def with_null_keys(connection: Connection, dialect: Dialect, schema: SchemaFacts) -> SchemaFacts:
    """Identify rows by their storage address in tables that contain a NULL in a key column."""
    tables = {
        name: _by_row(dialect, facts) if _holds_null_keys(connection, facts) else facts
        for name, facts in schema.tables.items()
    }
    return replace(schema, tables=tables)


def _holds_null_keys(connection: Connection, facts: TableFacts) -> bool:
    columns = [facts.clause.c[key.name] for key in facts.key if key.is_nullable]
    if not columns:
        return False
    found = select(1).select_from(facts.clause).where(or_(*(column.is_(None) for column in columns)))
    return connection.execute(found.limit(1)).one_or_none() is not None


def _by_row(dialect: Dialect, facts: TableFacts) -> TableFacts:
    identity = dialect.row_identity(facts.columns)
    if identity is None:
        return replace(facts, key=())
    shown = {**facts.columns, identity.name: identity}
    clause = table_clause(facts.name, shown, dialect.stored_type)
    return replace(facts, key=(identity,), clause=clause)


@dataclass(slots=True)
class Resolved:
    """A rule's walks, its watch, and all findings about it."""

    contract: Contract
    declared: Table
    rule: Rule
    walks: tuple[Walk, ...] = ()
    watch: InlineWatch | None = None
    findings: list[RuleFinding] = field(default_factory=list)
    triggers: list[str] = field(default_factory=list)  # that fire when the rule deletes

    @property
    def label(self) -> str:
        """The rule's short name."""
        return self.rule.label

    @property
    def is_refused(self) -> bool:
        """Whether a finding forbids the rule to delete."""
        return any(finding.severity.stops for finding in self.findings)

    def note(self, severity: Severity, message: str, *, field: str = "", remedy: str = "") -> None:
        """Add a finding about this rule, once."""
        finding = RuleFinding(
            severity=severity,
            scheduler=self.contract.name,
            table=self.declared.label,
            rule=self.label,
            field=field,
            message=message,
            remedy=remedy,
        )
        if finding not in self.findings:
            self.findings.append(finding)


_LOG = logging.getLogger("gandy.lifecycle")


def resolve(
    contract: Contract,
    connection: Connection,
    *,
    dialect: Dialect,
    schema: SchemaFacts,
    contracts: Sequence[Contract] = (),
) -> list[Resolved]:
    """Resolve every rule of the contract, in the order of declaration."""
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
    """Yield every table that the contract names."""
    for table in contract.tables:
        yield table.schema, table.name
        yield from table.related


def _fill(shaper: RuleShaper) -> None:
    """Shape the rule; an error becomes a finding."""
    resolved = shaper.resolved
    try:
        shaper.obstacles.judge_reading()
        _must_lead_somewhere(shaper)
        shaper.shape(resolved.rule)
    except UnjudgedError as error:
        resolved.note(Severity.REFUSED, str(error), field=error.field)
    except WrongFieldError as error:
        resolved.note(Severity.WRONG, str(error), field=error.field)
    except NotCoveredError as error:
        resolved.note(Severity.REFUSED, str(error), field="children")
    except ObstructedError as error:
        for obstacle in error.obstacles:
            resolved.note(Severity.REFUSED, obstacle.message, field=obstacle.field, remedy=obstacle.remedy)
    except (GandyError, SQLAlchemyError):
        raise
    except Exception as error:  # noqa: BLE001 an error of one rule must not stop the others
        _note_unforeseen(resolved, error)
    for trigger in unknown_triggers(resolved, shaper.schema):
        resolved.note(Severity.WARNING, f"there is no DELETE trigger {trigger} any more", field="triggers")


def _note_unforeseen(resolved: Resolved, error: Exception) -> None:
    """Note an invalid reference as wrong; any other error is unexpected and stops the rule."""
    if isinstance(error, LookupError) and not isinstance(error, KeyError | IndexError):
        resolved.note(Severity.WRONG, str(error.args[0]), field="wait_for")
        return
    _LOG.debug("%s of %s raised", resolved.label, resolved.declared.label, exc_info=error)
    resolved.note(Severity.REFUSED, f"the rule cannot be judged: {unexpected(error)}")


def _must_lead_somewhere(shaper: RuleShaper) -> None:
    """Refuse a key to a missing column: SQLite allows it, and then refuses every delete from the parent."""
    if not shaper.resolved.rule.deletes:
        return
    going = [shaper.facts.name]
    for parent in going:
        for key in shaper.schema.referring_to(parent):
            for column in key.parent_columns:
                if column not in shaper.schema.tables[parent].columns:
                    raise NotCoveredError(
                        f"the foreign key of {key} refers to the column {column} of {parent}, which does not "
                        "exist: the database refuses to delete any row there; correct the key"
                    )
            going += [key.child] if key.child not in going else []
