"""Check a contract's tables before they are swept: order, findings and advice."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.exc import DataError, DBAPIError, ProgrammingError, StatementError

from gandy.errors import ContractTargetError, DatabaseUrlError
from gandy.lifecycle.advisor.indexes import IndexAdvisor
from gandy.lifecycle.advisor.units import advise_units
from gandy.lifecycle.database.facts import reflect
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.selection.findings import RuleFinding, Severity
from gandy.lifecycle.selection.resolve import resolve, tables_of, with_null_keys
from gandy.lifecycle.state.holds import absent_tables, declared_elsewhere, read_holds
from gandy.settings.urls import read_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from gandy.lifecycle.contract.tables import Contract, Table
    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import SchemaFacts
    from gandy.lifecycle.database.target import TargetSession
    from gandy.lifecycle.selection.resolve import Resolved
    from gandy.lifecycle.state.holds import Hold


def sweep_order(tables: Sequence[Table], default_schema: str | None) -> list[Table]:
    """Return the tables in declared order, but dependencies first; a cycle keeps its declared order.

    A table that is declared without a schema is in the default schema.
    """
    ordered: list[Table] = []
    visited: set[str] = set()

    def visit(table: Table) -> None:
        if table.label in visited:
            return
        visited.add(table.label)
        for schema, name in table.related:
            for other in tables:
                if other.name == name and (other.schema or default_schema) == (schema or default_schema):
                    visit(other)
        ordered.append(table)

    for table in tables:
        visit(table)
    return ordered


_POSTGRES_PORT = 5432


@dataclass(frozen=True, slots=True)
class Survey:
    """Every rule of a contract, resolved and judged."""

    contract: Contract
    schema: SchemaFacts
    rules: tuple[Resolved, ...]
    contracts: tuple[Contract, ...]  #: all contracts of the database: their holds apply
    recorded: frozenset[Hold] = frozenset()  #: holds that contracts recorded there, including this one

    @property
    def findings(self) -> tuple[RuleFinding, ...]:
        """All findings, rule by rule."""
        return tuple(finding for rule in self.rules for finding in rule.findings)

    @property
    def wrong(self) -> tuple[RuleFinding, ...]:
        """Findings that show that the contract does not fit this database."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WRONG)


def survey(
    session: TargetSession,
    contract: Contract,
    now: datetime,
    *,
    contracts: Sequence[Contract] = (),
    is_thorough: bool = False,
) -> Survey:
    """Read the catalogue and judge every rule; write nothing. `contracts` are all of the database.

    Holds that other contracts recorded there apply too. A thorough survey reads more of the data than
    a sweep has the time for.
    """
    with session.reading() as connection:
        schema = reflect(connection, session.dialect, tables_of(contract))
        schema = with_null_keys(connection, session.dialect, schema)
        known = tuple(contracts) or (contract,)
        recorded = read_holds(connection, schema)
        everyone = (*known, *declared_elsewhere(recorded, known, schema))
        schema = replace(schema, absent=absent_tables(connection, schema, everyone))
        rules = resolve(contract, connection, dialect=session.dialect, schema=schema, contracts=everyone)
        advisor = IndexAdvisor(connection, session.dialect, schema, now)
        # A failed comparison is this contract's fault, unless a hold of another contract may cause it.
        blamed = Severity.REFUSED if _hold_rows(everyone[1:]) else Severity.WRONG
        for rule in rules:
            _judge(connection, advisor, rule, blamed=blamed, is_thorough=is_thorough)
            _judge_throttle(connection, session.dialect, rule)
    return Survey(contract, schema, tuple(rules), everyone, recorded)


def of_one_database(
    contract: Contract, contracts: Iterable[Contract], target: str | None
) -> tuple[Contract, ...]:
    """Return the contract and the other contracts of its database, whose holds apply too."""
    place = _place(contract, target)
    others = (other for other in contracts if other is not contract and _place(other, target) == place)
    return (contract, *others)


def _place(contract: Contract, target: str | None) -> tuple[object, ...] | None:
    """Return the normalised address of a contract's database; None if it names none."""
    try:
        given = contract.target(target)
        url = read_url(given)
    except ContractTargetError:
        return None
    except DatabaseUrlError:
        return (given,)
    if url.kind == "sqlite":
        return ("sqlite", str(Path(url.database or "").resolve()))
    hosts = tuple((host, port or _POSTGRES_PORT) for host, port in url.hosts)
    return ("postgresql", hosts, url.database, frozenset(url.parameters))


def _judge_throttle(connection: Connection, dialect: Dialect, rule: Resolved) -> None:
    """Refuse a throttle on replication lag that the role cannot see: it would never hold."""
    if rule.declared.throttle.replication_lag is None or not rule.walks:
        return
    lag = dialect.replication_lag(connection)
    if lag.hidden:
        rule.note(Severity.REFUSED, str(lag), field="throttle", remedy=lag.remedy)


def _hold_rows(contracts: Iterable[Contract]) -> bool:
    return any(table.keeps for contract in contracts for table in contract.tables)


def _judge(
    connection: Connection, advisor: IndexAdvisor, rule: Resolved, *, blamed: Severity, is_thorough: bool
) -> None:
    """Judge one rule; a comparison that the database refuses is a finding too."""
    if rule.is_refused:
        return
    try:
        with nullcontext() if advisor.asks_nothing(rule) else connection.begin_nested():
            advisor.advise(rule)
            if not rule.is_refused:
                advise_units(connection, rule, is_thorough=is_thorough)
    except (DataError, ProgrammingError) as error:
        rule.note(blamed, f"the database cannot compare this: {str(error.orig).splitlines()[0]}")
    except DBAPIError as error:
        if connection.invalidated:
            raise
        rule.note(Severity.REFUSED, f"the rule could not be judged: {said(error)}")
    except StatementError as error:  # a value that the driver cannot send as the column's type
        rule.note(blamed, f"the database cannot compare this: {said(error)}")
