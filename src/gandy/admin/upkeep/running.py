"""One cycle of a train that prunes: run, recorded, and told to those who watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.admin.running import run_in_steps
from gandy.admin.upkeep.declaration import UPKEEP
from gandy.admin.upkeep.pruning import Shift
from gandy.lifecycle.supervisor import announce
from gandy.lifecycle.supervisor.metrics import process_metrics

if TYPE_CHECKING:
    from gandy.admin.running import Record
    from gandy.admin.upkeep.cycle import UpkeepResult
    from gandy.admin.upkeep.declaration import UpkeepRequest
    from gandy.train.base import Train

#: Gandy's own tables among all that a lifecycle looks after.
SCHEDULER: Final = "gandy"


def declare_metrics() -> None:
    """Let every series exist from the start, at 0."""
    metrics = process_metrics()
    metrics.failed(SCHEDULER, 0)
    for table in {upkeep.table for upkeep in UPKEEP}:
        metrics.pruned(SCHEDULER, table, 0)


async def run_upkeep(
    shift: Shift, train: type[Train[UpkeepRequest, UpkeepResult]], request: UpkeepRequest, *, record: Record
) -> UpkeepResult:
    """Run one cycle and record it; what it removed is counted once it is committed."""
    try:
        result = await run_in_steps(shift.database, train, request, record=record, provide={Shift: shift})
    except Exception as error:
        _tell_failure("", train.definition.name, str(error))
        raise
    _tell(result, train.definition.name)
    return result


def _tell(result: UpkeepResult, rule: str) -> None:
    metrics = process_metrics()
    for table, rows in result.rows.items():
        metrics.pruned(SCHEDULER, table, rows)
    if result.deleted:
        announce.pruned(SCHEDULER, result.rows)
    for bound in result.failed:
        _tell_failure(bound.table, rule, bound.error)


def _tell_failure(table: str, rule: str, error: str) -> None:
    process_metrics().failed(SCHEDULER)
    announce.tick_failed(SCHEDULER, table=table, rule=rule, error=error)
