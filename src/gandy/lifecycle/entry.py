"""What a caller asks of the lifecycle: check, sweep, quarantine, forget."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gandy.errors import ContractUnknownError
from gandy.lifecycle.advisor.survey import of_one_database, survey
from gandy.lifecycle.contract.tables import gathered
from gandy.lifecycle.selection.findings import Finding, Severity
from gandy.lifecycle.state.forgetting import forget_contract, remembered_contracts, remembered_name
from gandy.lifecycle.state.quarantine import QuarantinedRow, list_quarantine, release_rows
from gandy.lifecycle.state.setup import must_allow, open_state, sweep_obstacle
from gandy.lifecycle.state.tables import HOLD, LEASE, QUARANTINE, RULE
from gandy.lifecycle.supervisor.tick import PATIENT, Attendance, run_contracts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gandy.clock import Clock
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.target import Session
    from gandy.lifecycle.supervisor.report import ContractReport


def check(
    contracts: Iterable[Contract],
    target: str | None = None,
    *,
    clock: Clock | None = None,
    beside: Iterable[Contract] = (),
) -> list[Finding]:
    """Everything that is wrong, refused or doubtful about the contracts on their database.

    The holds of all contracts of a database count: `beside` are those that are not to be checked.
    """
    findings: list[Finding] = []
    wanted, others = gathered(contracts, target), list(beside)
    for contract in wanted:
        with open_state(contract.target(target), clock=clock) as session:
            known = of_one_database(contract, [*wanted, *others], target)
            findings += _state_findings(session, contract)
            seen = survey(session, contract, session.now(), contracts=known, is_thorough=True)
            findings += seen.findings
    return findings


def _state_findings(session: Session, contract: Contract) -> Iterator[Finding]:
    """A sweep needs its state; where it may not write it, nothing can be swept."""
    obstacle = sweep_obstacle(session)
    if obstacle is not None:
        yield Finding(
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
    attendance: Attendance | None = None,
) -> list[ContractReport]:
    """Sweep now, within the budget: a contract that does not fit is refused before anything is deleted."""
    by = replace(attendance or Attendance(), is_strict=True, pages=None, wait_for_lease=PATIENT)
    return run_contracts(contracts, target, table=table, attendance=by)


def quarantine(target: str, *, table: str | None = None) -> list[QuarantinedRow]:
    """The rows that could not be deleted."""
    with open_state(target) as session:
        must_allow(session, [QUARANTINE], ("SELECT",))
        with session.reading() as connection:
            return list_quarantine(connection, table=table)


def release(target: str, *, table: str | None = None) -> int:
    """Let the next sweep try quarantined rows again; how many they were."""
    with open_state(target) as session:
        must_allow(session, [QUARANTINE], ("SELECT", "DELETE"))
        with session.writing() as connection:
            return release_rows(connection, list_quarantine(connection, table=table))


def forget(target: str, scheduler: str) -> dict[str, int]:
    """Drop all that the database remembers of a contract that is gone; how much that was, by kind.

    Its holds count no more. What a living contract needs is recorded again by its next sweep.
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
