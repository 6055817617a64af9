"""What is active, under the caps that apply."""

from __future__ import annotations

from gandy.admin.job_dispatcher.cycle import MeasuredCapacity, ReadyGroups
from gandy.store import dispatching
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time


async def measure_capacity(ready: ReadyGroups, transaction: Transaction) -> MeasuredCapacity:
    """Lock the capped groups, then count: in this order a cap is exact across servers."""
    capacity = await transaction.run(dispatching.measure_capacity(ready.request, ready.groups))
    return MeasuredCapacity(capacity)
