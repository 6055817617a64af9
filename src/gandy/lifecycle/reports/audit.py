"""Find tables without a bound, and rules that wait for a confirmation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gandy.errors import StateObstructedError
from gandy.lifecycle.contract.tables import MatrixRow, bound_of
from gandy.lifecycle.database.facts import TableName, reflect_all
from gandy.lifecycle.state.progress import read_states
from gandy.lifecycle.state.setup import ensure_tables, must_allow, open_state, scheduler_of
from gandy.lifecycle.state.tables import (
    OWN_TABLES,
    QUARANTINE,
    RULE,
    MeasuredTable,
    forget_others,
    last_measured,
    record_size,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gandy.clock import Clock
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.dialect import TableSize
    from gandy.lifecycle.database.target import TargetSession


UNBOUNDED = "unbounded"
_OWN_BOUND = "bounded by the lifecycle itself: one row per rule, lease and audited table"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTable:
    """One table of the audit; growth is None in the first audit."""

    table: str
    scheduler: str | None
    bound: str
    rows: int
    bytes: int | None
    rows_grown: int | None = None
    bytes_grown: int | None = None
    since: datetime | None = None
    no_history: str | None = None  # why this audit is not stored

    @property
    def is_bounded(self) -> bool:
        """Whether anything bounds the table."""
        return self.bound != UNBOUNDED


def audit(
    contracts: Iterable[Contract],
    target: str,
    *,
    clock: Clock | None = None,
    others: Iterable[MatrixRow] = (),
) -> list[AuditedTable]:
    """Audit every table; `others` are the bounds of tables without a contract."""
    with open_state(target, clock=clock) as session:
        return _Auditor(session, list(contracts), list(others)).tables(no_history=_obstacle(session))


def _obstacle(session: TargetSession) -> str | None:
    """Return why the audit cannot be stored; a role without write access may still read it."""
    try:
        ensure_tables(session)
    except StateObstructedError as error:
        return error.problem
    return None


class _Auditor:
    """Audits one database."""

    def __init__(self, session: TargetSession, contracts: list[Contract], others: list[MatrixRow]) -> None:
        self._session = session
        self._contracts = contracts
        self._others = others

    def tables(self, *, no_history: str | None) -> list[AuditedTable]:
        now = self._session.now()
        with self._session.reading() as connection:
            schema = reflect_all(connection, self._session.dialect)
            before = {} if no_history else last_measured(connection)
            sizes = {
                name: self._session.dialect.size(connection, facts)
                for name, facts in sorted(schema.tables.items())
            }
        if no_history is None:
            self._record(now, sizes)
        audited = [
            self._table(name, MeasuredTable(now, size), before.get(str(name)), default=schema.default_schema)
            for name, size in sizes.items()
        ]
        return [replace(table, no_history=no_history) for table in audited]

    def _record(self, now: datetime, sizes: Mapping[TableName, TableSize]) -> None:
        with self._session.writing() as connection:
            forget_others(connection, map(str, sizes))
            for name, size in sizes.items():
                record_size(connection, str(name), MeasuredTable(now, size))

    def _table(
        self, name: TableName, now: MeasuredTable, before: MeasuredTable | None, *, default: str | None
    ) -> AuditedTable:
        scheduler, bound = self._bound(name, default)
        return AuditedTable(
            table=name.name if name.schema == default else str(name),
            scheduler=scheduler,
            bound=bound,
            rows=now.size.rows,
            bytes=now.size.bytes,
            rows_grown=None if before is None else now.size.rows - before.size.rows,
            bytes_grown=_difference(now.size.bytes, None if before is None else before.size.bytes),
            since=None if before is None else before.at,
        )

    def _bound(self, name: TableName, default: str | None) -> tuple[str | None, str]:
        for contract in self._contracts:
            for table in contract.tables:
                if TableName(table.schema or default, table.name) == name:
                    return contract.name, bound_of(table) or UNBOUNDED
        if name.name in OWN_TABLES:
            return None, _OWN_BOUND
        names = {str(name), name.name} if name.schema == default else {str(name)}
        rows = [row for row in self._others if row.table in names]
        if not rows:
            return None, UNBOUNDED
        return rows[0].scheduler, "; ".join(f"{row.bounded_by} ({row.prune_path})" for row in rows)


def _difference(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRule:
    """A rule that waits for a confirmation, and the number of rows that it would delete."""

    table: str
    rule: str
    rows: int


def held_rules(contract: Contract) -> list[HeldRule]:
    """Return the held rules of a contract; write nothing and count no table."""
    with open_state(contract.target()) as session:
        must_allow(session, (RULE, QUARANTINE), ("SELECT",))
        with session.reading() as connection:
            states = read_states(connection, scheduler_of(session, contract))
    return [
        HeldRule(table=key.table, rule=key.rule, rows=state.held_rows)
        for key, state in sorted(states.items(), key=lambda item: (item[0].table, item[0].rule))
        if state.held_rows is not None
    ]
