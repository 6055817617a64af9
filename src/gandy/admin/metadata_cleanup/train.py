"""The route of one cycle."""

from __future__ import annotations

from gandy.admin.metadata_cleanup.delete_expired_metadata import delete_expired_metadata
from gandy.admin.upkeep.cycle import UpkeepResult
from gandy.admin.upkeep.declaration import UpkeepRequest
from gandy.train.base import Train


class MetadataCleanupTrain(Train[UpkeepRequest, UpkeepResult]):
    """One junction; it takes no lock, since whoever comes second finds nothing left."""

    route = (delete_expired_metadata,)
