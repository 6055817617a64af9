"""The route of one sweep."""

from __future__ import annotations

from gandy.admin.contract_sweep.cycle import ContractRequest, SweptContract
from gandy.admin.contract_sweep.keep_contract import keep_contract
from gandy.train.base import Train


class ContractSweepTrain(Train[ContractRequest, SweptContract]):
    """Recorded under the name of the maintenance of tables: whose they are does not matter to a reader."""

    name = "TableMaintenanceTrain"
    route = (keep_contract,)
