"""One cycle of the dispatcher, with the settings of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.admin.job_dispatcher.cycle import CycleRequest, CycleResult
from gandy.admin.job_dispatcher.train import JobDispatcherTrain
from gandy.admin.running import Record, run_in_transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.settings import Settings
    from gandy.store.drivers.database import Database


def cycle_request(
    owner: str,
    trains: Sequence[str],
    settings: Settings,
    *,
    min_age_seconds: float = 0.0,
    has_submitter: bool = False,
) -> CycleRequest:
    """Say what a cycle may do, by the settings; with a submitter no slots of ours limit what is active."""
    cap = settings.dispatcher.max_active_jobs
    return CycleRequest(
        owner=owner,
        known_trains=tuple(trains),
        max_active_jobs=cap if isinstance(cap, int) else None,
        is_cap_auto=cap == "auto" and not has_submitter,
        max_per_group=settings.dispatcher.max_per_group,
        default_timeout_seconds=settings.manifest_manager.default_timeout.total_seconds(),
        min_age_seconds=min_age_seconds,
    )


async def run_cycle(database: Database, request: CycleRequest, record: Record) -> CycleResult:
    """Run one cycle and record it."""
    result = await run_in_transaction(database, JobDispatcherTrain, request, record=record)
    return result or CycleResult()
