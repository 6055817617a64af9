"""One sweep of a contract: run and recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.admin.contract_sweep.cycle import ContractRequest, ContractShift, SweptContract
from gandy.admin.contract_sweep.train import ContractSweepTrain
from gandy.admin.running import run_in_steps
from gandy.errors import ContractTickError
from gandy.lifecycle.supervisor.report import ContractReport, RuleFailure

if TYPE_CHECKING:
    from gandy.admin.running import Record
    from gandy.store.drivers.database import Database


async def sweep_contract(database: Database, shift: ContractShift, *, record: Record) -> SweptContract:
    """Keep the contract once; what fails is recorded and reported, and never raised."""
    request = ContractRequest(scheduler=shift.contract.name)
    try:
        return await run_in_steps(
            database, ContractSweepTrain, request, record=record, provide={ContractShift: shift}
        )
    except ContractTickError as error:
        failure = RuleFailure(table="", rule="", error=error.problem)
        return SweptContract(ContractReport(scheduler=error.scheduler, failures=[failure]))
