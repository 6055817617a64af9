"""Sweep an application's tables by its contracts, as a train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy import lifecycle
from gandy.errors import ContractTickError, GandyError
from gandy.lifecycle.supervisor import report as announce
from gandy.lifecycle.supervisor.report import ContractReport, RuleFailure, process_metrics
from gandy.loops.cycles import run_in_steps
from gandy.train.base import Train

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from gandy.clock import Clock
    from gandy.lifecycle import Contract
    from gandy.loops.cycles import Record
    from gandy.store.drivers.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractRequest:
    """The contract to run, by its name."""

    scheduler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractShift:
    """The contract, and the callbacks of its sweep."""

    contract: Contract
    is_stopping: Callable[[], bool]
    rest: Callable[[timedelta], None]
    clock: Clock | None = None
    believed: datetime | None = None  # the current instant by a trusted clock
    is_clock_right: bool = False  # an operator confirms that the clock is right
    beside: Sequence[Contract] = ()  # the application's other contracts, whose holds apply too


@dataclass(frozen=True, slots=True)
class SweptContract:
    """The report, as the result of a cycle."""

    report: ContractReport

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the report, by name; zeros are left out."""
        report = self.report
        done = {
            "deleted": report.deleted,
            **{f"deleted_{report.scheduler}.{table}": rows for table, rows in sorted(report.counts.items())},
            "set_aside": sum(rule.set_aside for rule in report.rules),
            "passed_over": sum(rule.passed_over for rule in report.rules),
            "failed": len(report.failures),
            "held": len(report.held),
            "overdue": len(report.overdue),
            "skipped": int(report.is_skipped or report.doubt is not None),
        }
        return {word: count for word, count in done.items() if count or word == "deleted"}

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do, or another process did it."""
        return not any(count for word, count in self.counts.items() if word != "skipped")


def keep_contract(request: ContractRequest, shift: ContractShift) -> SweptContract:
    """Sweep in this thread; a failed rule is reported, a tick that failed as a whole raises an error."""
    report = _swept(request.scheduler, shift)
    whole = [failure.error for failure in report.failures if not failure.table]
    if whole and not report.deleted:
        raise ContractTickError(report.scheduler, whole[0])
    return SweptContract(report)


def _swept(scheduler: str, shift: ContractShift) -> ContractReport:
    try:
        options = lifecycle.SweepOptions(
            is_stopping=shift.is_stopping,
            rest=shift.rest,
            clock=shift.clock,
            beside=shift.beside,
            believed=shift.believed,
            is_clock_right=shift.is_clock_right,
        )
        [report] = lifecycle.run_contracts([shift.contract], options=options)
    except GandyError as error:  # no database is named, or its URL is invalid
        process_metrics().failed(scheduler)
        announce.tick_failed(scheduler, table="", rule="", error=str(error))
        raise ContractTickError(scheduler, str(error)) from error
    return report


class ContractSweepTrain(Train[ContractRequest, SweptContract]):
    """Recorded as TableMaintenance: readers need not distinguish Gandy's tables from others."""

    name = "TableMaintenanceTrain"
    route = (keep_contract,)


async def sweep_contract(database: Database, shift: ContractShift, *, record: Record) -> SweptContract:
    """Run the contract once; failures are recorded and reported, never raised."""
    request = ContractRequest(scheduler=shift.contract.name)
    try:
        return await run_in_steps(
            database, ContractSweepTrain, request, record=record, provide={ContractShift: shift}
        )
    except ContractTickError as error:
        failure = RuleFailure(table="", rule="", error=error.problem)
        return SweptContract(ContractReport(scheduler=error.scheduler, failures=[failure]))
