"""Which of the ready entries may run now."""

from __future__ import annotations

from gandy.admin.job_dispatcher.cycle import ChosenEntries, MeasuredCapacity, ReadyGroups
from gandy.store.dispatching import choose_entries, load_entries
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time


async def apply_capacity(
    ready: ReadyGroups, measured: MeasuredCapacity, transaction: Transaction
) -> ChosenEntries:
    """Take the top of each group with room: the global cap stops the cycle, a group's cap only that group."""
    work = await transaction.run(load_entries(ready.request, ready.groups, measured.capacity))
    return ChosenEntries(choose_entries(work, ready.request))
