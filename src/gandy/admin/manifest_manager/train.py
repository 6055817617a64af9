"""The route of one cycle."""

from __future__ import annotations

from gandy.admin.manifest_manager.cancel_timed_out_jobs import cancel_timed_out_jobs
from gandy.admin.manifest_manager.create_work_queue_entries import create_work_queue_entries
from gandy.admin.manifest_manager.cycle import CycleRequest, CycleResult
from gandy.admin.manifest_manager.determine_jobs_to_queue import determine_jobs_to_queue
from gandy.admin.manifest_manager.load_manifests import load_manifests
from gandy.admin.manifest_manager.reap_failed_jobs import reap_failed_jobs
from gandy.admin.manifest_manager.reap_stale_in_progress_metadata import reap_stale_in_progress_metadata
from gandy.admin.manifest_manager.reap_stale_pending_metadata import reap_stale_pending_metadata
from gandy.train.base import Train


class ManifestManagerTrain(Train[CycleRequest, CycleResult]):
    """One cycle, inside the transaction that it is given: all of it is committed, or nothing."""

    route = (
        load_manifests,
        cancel_timed_out_jobs,
        reap_stale_pending_metadata,
        reap_stale_in_progress_metadata,
        reap_failed_jobs,
        determine_jobs_to_queue,
        create_work_queue_entries,
    )
