"""One cycle: one transaction under the lock, the train inside it, and its record afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from gandy.admin.manifest_manager.train import ManifestManagerTrain
from gandy.admin.recording import FinishedCycle, record_cycle
from gandy.model.outcome import Cancelled, Completed, Failed
from gandy.store.drivers.database import Transaction
from gandy.store.manifests import try_lock_cycle

if TYPE_CHECKING:
    from gandy.admin.manifest_manager.cycle import CycleRequest, CycleResult
    from gandy.store.drivers.database import Database

CycleOutcome: TypeAlias = "Completed[CycleResult] | Failed | Cancelled"


class _CycleFailed(Exception):  # noqa: N818 never seen outside: it only ends the transaction
    def __init__(self, outcome: Failed | Cancelled) -> None:
        super().__init__()
        self.outcome = outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Whose run it is, and for how long it is kept."""

    owner: str
    keep_for: timedelta
    is_asked_for: bool = False


async def run_cycle(database: Database, request: CycleRequest, record: Record) -> CycleResult | None:
    """Run one cycle and record it; None where another server holds the lock. A failure is raised, too."""
    begun = monotonic()
    outcome = await _run(database, request)
    if outcome is None:
        return None
    result = outcome.value if isinstance(outcome, Completed) else None
    await record_cycle(
        database,
        FinishedCycle(
            owner=record.owner,
            train=ManifestManagerTrain.definition.name,
            timings=outcome.timings,
            failure=outcome if isinstance(outcome, Failed) else None,
            took=timedelta(seconds=monotonic() - begun),
            counts={} if result is None else result.counts,
            keep_for=record.keep_for,
            is_idle=result is not None and result.is_idle,
            is_asked_for=record.is_asked_for,
        ),
    )
    if isinstance(outcome, Failed):
        raise outcome.exception
    return result


async def _run(database: Database, request: CycleRequest) -> CycleOutcome | None:
    try:
        async with database.transaction() as transaction:
            if request.settings.advisory_lock and not await transaction.run(try_lock_cycle()):
                return None
            outcome = await ManifestManagerTrain.outcome(request, provide={Transaction: transaction})
            return _completed(outcome)
    except _CycleFailed as failed:
        return failed.outcome


def _completed(outcome: CycleOutcome) -> Completed[CycleResult]:
    """Give a completed cycle; any other leaves by raising, so that it is rolled back."""
    if isinstance(outcome, Completed):
        return outcome
    raise _CycleFailed(outcome)
