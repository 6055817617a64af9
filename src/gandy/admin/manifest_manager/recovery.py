"""The part of a cycle that recovers runs, for processes that evaluate no schedule."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.admin.manifest_manager.cancel_timed_out_jobs import cancel_timed_out_jobs
from gandy.admin.manifest_manager.reap_stale_in_progress_metadata import reap_stale_in_progress_metadata
from gandy.admin.manifest_manager.reap_stale_pending_metadata import reap_stale_pending_metadata
from gandy.store.reaping import try_lock_recovery

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from gandy.admin.manifest_manager.cycle import CycleRequest
    from gandy.events import RecoveryCause
    from gandy.store.drivers.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What was asked to stop, what was ended, and what is known of the leases."""

    timed_out: tuple[int, ...]
    recovered: Mapping[RecoveryCause, int]
    silent_workers: int
    next_lease_end: timedelta | None


async def recover_runs(database: Database, request: CycleRequest) -> Recovery | None:
    """End what no process works on, in one transaction; None where another server does so now.

    The manifests' own letters are left to the manifest manager: the end of a run gives its manifest a look.
    """
    async with database.transaction() as transaction:
        if request.settings.advisory_lock and not await transaction.run(try_lock_recovery()):
            return None
        timed_out = await cancel_timed_out_jobs(transaction)
        pending = await reap_stale_pending_metadata(request, transaction)
        in_progress = await reap_stale_in_progress_metadata(request, transaction)
    return Recovery(
        timed_out=timed_out.run_ids,
        recovered=Counter(pending.causes) + Counter(in_progress.causes),
        silent_workers=in_progress.silent_workers,
        next_lease_end=in_progress.next_lease_end,
    )
