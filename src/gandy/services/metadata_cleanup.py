"""The service that runs MetadataCleanup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.admin.metadata_cleanup.train import MetadataCleanupTrain
from gandy.services.upkeep import UpkeepService

if TYPE_CHECKING:
    from gandy.services.upkeep import UpkeepParts

SERVICE: Final = "metadata-cleanup"


def metadata_cleanup(parts: UpkeepParts) -> UpkeepService:
    """Run it every `cleanup.interval`."""
    return UpkeepService(parts, SERVICE, MetadataCleanupTrain, every=parts.settings.cleanup.interval)
