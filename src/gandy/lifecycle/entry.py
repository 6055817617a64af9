"""The functions of the lifecycle for Python callers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gandy.errors import ClockDoubtedError, ContractUnknownError, RuleRefusedError
from gandy.lifecycle.advisor.survey import of_one_database, survey
from gandy.lifecycle.contract.tables import Contract, Table, gathered
from gandy.lifecycle.selection.findings import RuleFinding, Severity
from gandy.lifecycle.state.progress import QuarantinedRow, list_quarantine, release_rows
from gandy.lifecycle.state.setup import (
    forget_contract,
    must_allow,
    open_state,
    remembered_contracts,
    remembered_name,
    sweep_obstacle,
)
from gandy.lifecycle.state.tables import HOLD, LEASE, QUARANTINE, RULE
from gandy.lifecycle.supervisor.tick import PATIENT, SweepOptions, run_contracts
from gandy.sweep import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gandy.clock import Clock
    from gandy.lifecycle.database.target import TargetSession
    from gandy.lifecycle.supervisor.report import ContractReport


def check(
    contracts: Iterable[Contract],
    target: str | None = None,
    *,
    clock: Clock | None = None,
    beside: Iterable[Contract] = (),
) -> list[RuleFinding]:
    """Check the contracts against their database; return all findings.

    The holds of all contracts of a database apply: `beside` are contracts that are not checked themselves.
    """
    findings: list[RuleFinding] = []
    wanted, others = gathered(contracts, target), list(beside)
    for contract in wanted:
        with open_state(contract.target(target), clock=clock) as session:
            known = of_one_database(contract, [*wanted, *others], target)
            findings += _state_findings(session, contract)
            seen = survey(session, contract, session.now(), contracts=known, is_thorough=True)
            findings += seen.findings
    return findings


def _state_findings(session: TargetSession, contract: Contract) -> Iterator[RuleFinding]:
    """Report if the state cannot be written: without it, nothing can be swept."""
    obstacle = sweep_obstacle(session)
    if obstacle is not None:
        yield RuleFinding(
            severity=Severity.REFUSED,
            scheduler=contract.name,
            table=LEASE.name,
            rule="",
            message=obstacle.message,
            remedy=obstacle.remedy,
        )


def sweep(
    contracts: Iterable[Contract],
    target: str | None = None,
    *,
    table: str | None = None,
    options: SweepOptions | None = None,
) -> list[ContractReport]:
    """Sweep now, within the budget: a contract that does not fit is refused before anything is deleted."""
    by = replace(options or SweepOptions(), is_strict=True, pages=None, wait_for_lease=PATIENT)
    return run_contracts(contracts, target, table=table, options=by)


def quarantine(target: str, *, table: str | None = None) -> list[QuarantinedRow]:
    """List the rows that could not be deleted."""
    with open_state(target) as session:
        must_allow(session, [QUARANTINE], ("SELECT",))
        with session.reading() as connection:
            return list_quarantine(connection, table=table)


def release(target: str, *, table: str | None = None) -> int:
    """Release quarantined rows for the next sweep; return their number."""
    with open_state(target) as session:
        must_allow(session, [QUARANTINE], ("SELECT", "DELETE"))
        with session.writing() as connection:
            return release_rows(connection, list_quarantine(connection, table=table))


def forget(target: str, scheduler: str) -> dict[str, int]:
    """Delete the stored state of a removed contract; return the number of rows by kind.

    Its holds no longer apply. If the contract still exists, its next sweep records its state again.
    """
    with open_state(target) as session:
        must_allow(session, (HOLD, RULE, QUARANTINE, LEASE), ("SELECT", "DELETE"))
        now = session.now()
        with session.writing() as connection:
            known = remembered_contracts(connection)
            name = remembered_name(scheduler, known)
            if name is None:
                raise ContractUnknownError(scheduler, known)
            return forget_contract(connection, name, now=now)


DEFAULT_LIMIT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """Rows that one run deleted; children are counted separately and not against the limit."""

    deleted: int
    limit: int
    children: dict[str, int] = field(default_factory=dict)
    is_second_start: bool = False  # another run of the same deletion holds the lease

    @property
    def has_more(self) -> bool:
        """Whether to queue another run: the limit was reached, so more rows may be left."""
        return self.deleted == self.limit


def delete_old_rows(
    table: Table, target: str, *, limit: int = DEFAULT_LIMIT, options: SweepOptions | None = None
) -> DeletedRows:
    """Delete at most `limit` dead rows by the table's rules; a concurrent second start does nothing."""
    contract = Contract(f"delete_old_rows.{table.label}", [table], budget=Budget(rows=limit))
    by = replace(options or SweepOptions(), is_limited=True, is_strict=True)
    [report] = run_contracts([contract], target, options=by)
    if report.doubt is not None:
        raise ClockDoubtedError(report.doubt)
    for failure in report.failures:
        raise RuleRefusedError(failure.table, failure.rule, failure.error)
    return DeletedRows(
        deleted=sum(outcome.rows for outcome in report.rules),
        limit=limit,
        children=_children(report, table.label),
        is_second_start=report.is_skipped,
    )


def _children(report: ContractReport, table: str) -> dict[str, int]:
    return {name: rows for name, rows in report.counts.items() if name != table}
