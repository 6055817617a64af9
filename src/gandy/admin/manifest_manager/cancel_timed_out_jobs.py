"""Runs that used up their time are asked to stop."""

from __future__ import annotations

from gandy.admin.manifest_manager.cycle import TimedOutRuns
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.reaping import cancel_timed_out


async def cancel_timed_out_jobs(transaction: Transaction) -> TimedOutRuns:
    """Request the cancellation of every run past its deadline, of a manifest or not, enabled or not."""
    return TimedOutRuns(await transaction.run(cancel_timed_out()))
