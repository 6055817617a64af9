"""Which groups have ready work, and which trains can run at all."""

from __future__ import annotations

from gandy.admin.job_dispatcher.cycle import CycleRequest, ReadyGroups
from gandy.store.dispatching import DispatchRequest, hold_unknown, open_due, ready_groups
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.workers import live_workers

LEAST_AUTO_CAP = 10
AUTO_CAP_PER_SLOT = 2


async def load_ready(request: CycleRequest, transaction: Transaction) -> ReadyGroups:
    """Let in what has come due, set aside what nobody alive can run, and find the groups that are left."""
    workers = await transaction.run(live_workers(request.owner))
    trains = sorted({*request.known_trains, *(train for worker in workers for train in worker.trains)})
    opened = await transaction.run(open_due())
    held = await transaction.run(hold_unknown(request.owner, trains))
    cap = request.max_active_jobs
    if request.is_cap_auto:
        cap = max(LEAST_AUTO_CAP, AUTO_CAP_PER_SLOT * sum(worker.slots for worker in workers))
    groups = await transaction.run(ready_groups(request.owner, trains))
    dispatch_request = DispatchRequest(
        owner=request.owner,
        trains=trains,
        limit=request.max_per_group * max(1, len(groups)),
        per_group=request.max_per_group,
        default_timeout_seconds=request.default_timeout_seconds,
        max_active_jobs=cap,
        min_age_seconds=request.min_age_seconds,
    )
    return ReadyGroups(dispatch_request, groups, opened, held)
