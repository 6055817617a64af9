"""The service that runs TableMaintenance; its word is `lifecycle`, as for the application's own tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.admin.table_maintenance.train import TableMaintenanceTrain
from gandy.services.upkeep import UpkeepService

if TYPE_CHECKING:
    from gandy.services.upkeep import UpkeepParts

SERVICE: Final = "lifecycle"


def table_maintenance(parts: UpkeepParts) -> UpkeepService:
    """Run it every `retention.interval`."""
    return UpkeepService(parts, SERVICE, TableMaintenanceTrain, every=parts.settings.retention.interval)
