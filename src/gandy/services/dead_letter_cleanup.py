"""The service that runs DeadLetterCleanup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.admin.dead_letter_cleanup.train import DeadLetterCleanupTrain
from gandy.services.upkeep import UpkeepService

if TYPE_CHECKING:
    from gandy.services.upkeep import UpkeepParts

SERVICE: Final = "dead-letter-cleanup"


def dead_letter_cleanup(parts: UpkeepParts) -> UpkeepService:
    """Run it every `retention.interval`."""
    return UpkeepService(parts, SERVICE, DeadLetterCleanupTrain, every=parts.settings.retention.interval)
