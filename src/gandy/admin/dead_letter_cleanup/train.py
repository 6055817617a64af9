"""The route of one cycle."""

from __future__ import annotations

from gandy.admin.dead_letter_cleanup.delete_resolved_letters import delete_resolved_letters
from gandy.admin.upkeep.cycle import UpkeepResult
from gandy.admin.upkeep.declaration import UpkeepRequest
from gandy.train.base import Train


class DeadLetterCleanupTrain(Train[UpkeepRequest, UpkeepResult]):
    """One junction; it takes no lock, since whoever comes second finds nothing left."""

    route = (delete_resolved_letters,)
