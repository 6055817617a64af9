"""The route of one cycle."""

from __future__ import annotations

from gandy.admin.table_maintenance.cap_runs import cap_runs
from gandy.admin.table_maintenance.drop_past_days import drop_past_days
from gandy.admin.table_maintenance.make_coming_days import make_coming_days
from gandy.admin.table_maintenance.prune_rows import prune_rows
from gandy.admin.upkeep.cycle import UpkeepResult
from gandy.admin.upkeep.declaration import UpkeepRequest
from gandy.train.base import Train


class TableMaintenanceTrain(Train[UpkeepRequest, UpkeepResult]):
    """Days first: what goes with a day need not be deleted by row."""

    route = (make_coming_days, drop_past_days, prune_rows, cap_runs)
