"""The rules of the contract are kept, each on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy import lifecycle
from gandy.admin.contract_sweep.cycle import ContractRequest, ContractShift, SweptContract
from gandy.errors import ContractTickError, GandyError
from gandy.lifecycle.supervisor import announce
from gandy.lifecycle.supervisor.metrics import process_metrics

if TYPE_CHECKING:
    from gandy.lifecycle.supervisor.report import ContractReport


def keep_contract(request: ContractRequest, shift: ContractShift) -> SweptContract:
    """Sweep in this thread; a rule that fails is part of the report, a tick that did nothing at all fails."""
    report = _swept(request.scheduler, shift)
    whole = [failure.error for failure in report.failures if not failure.table]
    if whole and not report.deleted:
        raise ContractTickError(report.scheduler, whole[0])
    return SweptContract(report)


def _swept(scheduler: str, shift: ContractShift) -> ContractReport:
    try:
        attendance = lifecycle.Attendance(
            is_stopping=shift.is_stopping,
            rest=shift.rest,
            clock=shift.clock,
            beside=shift.beside,
            believed=shift.believed,
            is_clock_right=shift.is_clock_right,
        )
        [report] = lifecycle.run_contracts([shift.contract], attendance=attendance)
    except GandyError as error:  # no database is named, or it cannot be what is named
        process_metrics().failed(scheduler)
        announce.tick_failed(scheduler, table="", rule="", error=str(error))
        raise ContractTickError(scheduler, str(error)) from error
    return report
