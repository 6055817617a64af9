"""Administrative runs: written once, when they end, outside the cycle's own transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gandy.admin.job_runner.endings import encode_timings
from gandy.store.audit import AdministrativeRun, record_run
from gandy.store.owners import take_turn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from gandy.model.run import Failed, Timings
    from gandy.store.drivers.database import Runner
    from gandy.store.statements import Operation

_IDLE_EVERY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCycle:
    """One cycle of a service, as it is to be recorded."""

    owner: str
    train: str
    timings: Timings
    failure: Failed | None = None
    took: timedelta
    counts: Mapping[str, int]
    keep_for: timedelta
    is_idle: bool
    is_asked_for: bool = False  #: a person ran this very cycle: it is recorded in any case


async def record_cycle(database: Runner, cycle: FinishedCycle) -> None:
    """Write the run of a cycle that did something or failed; of idle ones, one a minute over all servers."""
    await database.run(_record(cycle))


def _record(cycle: FinishedCycle) -> Operation[None]:
    if cycle.is_idle and not cycle.is_asked_for:
        key = f"idle:{cycle.train}"
        if not (yield from take_turn(key, every_seconds=_IDLE_EVERY_SECONDS, owner=cycle.owner)):
            return
    failed = cycle.failure
    run = AdministrativeRun(
        owner=cycle.owner,
        train=cycle.train,
        is_failed=failed is not None,
        took=cycle.took,
        keep_for=cycle.keep_for,
        output_json=None if failed else json.dumps(dict(cycle.counts)),
        junctions_json=encode_timings(cycle.timings),
        failure_junction=failed.junction if failed else None,
        failure_exception=failed.exception_type if failed else None,
        failure_reason=failed.reason if failed else None,
        stack_trace=failed.stack_trace if failed else None,
    )
    yield from record_run(run)
