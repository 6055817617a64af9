"""The trains whose runs MetadataCleanup removes without being told to."""

from __future__ import annotations

from typing import Final

#: Gandy's own trains that write runs; JobRunner writes none of its own.
ADMINISTRATIVE_TRAINS: Final = (
    "DeadLetterCleanupTrain",
    "JobDispatcherTrain",
    "ManifestManagerTrain",
    "MetadataCleanupTrain",
    "TableMaintenanceTrain",
)
