"""The chosen entries become pending runs."""

from __future__ import annotations

from gandy.admin.job_dispatcher.cycle import ChosenEntries, CycleResult, ReadyGroups
from gandy.store.dispatching import announce_pending, dispatch_entries
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time


async def dispatch(ready: ReadyGroups, chosen: ChosenEntries, transaction: Transaction) -> CycleResult:
    """Create the runs, mark the entries, and tell whoever takes pending runs."""
    if not chosen.entries:
        return CycleResult(opened=ready.opened, held=ready.held)
    dispatched = await transaction.run(dispatch_entries(ready.request, chosen.entries, ready.by_id))
    if dispatched.runs:
        await transaction.run(announce_pending(ready.request.owner))
    return CycleResult(dispatched=dispatched.runs, held=ready.held + dispatched.held, opened=ready.opened)
