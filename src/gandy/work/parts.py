"""What a worker is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.rules.ending import spans_of
from gandy.store.dispatching import DispatchRequest
from gandy.store.finishing import FinishRules
from gandy.train.run import RunLimits
from gandy.work.runner import RunnerParts, input_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.clock import ManualClock
    from gandy.events import EventBus
    from gandy.loops.wakeups import Wakeups
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.train.base import Engine
    from gandy.train.execution import ProvidedValues
    from gandy.train.hooks import HookDelivery, Hooks
    from gandy.train.registry import Registry
    from gandy.work.reports import RunReports


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """What the application gives to its worker."""

    owner: str
    database: Database
    settings: Settings
    registry: Registry
    provided: ProvidedValues
    hooks: Hooks
    events: EventBus
    wakeups: Wakeups
    engine: Engine  #: the application's own: one for each process
    host: str | None = None  #: where a child process finds the application, "module:name"
    clock: ManualClock | None = None


def dispatch_request(
    parts: WorkerParts, limit: int, *, worker_id: str, trains: Sequence[str], turn: int, free_slots: int
) -> DispatchRequest:
    """Ask for up to `limit` runs, of which `free_slots` can begin; a cap that the user set holds here too."""
    settings, cap = parts.settings, parts.settings.dispatcher.max_active_jobs
    return DispatchRequest(
        owner=parts.owner,
        trains=trains,
        limit=limit,
        per_group=settings.dispatcher.max_per_group,
        default_timeout_seconds=settings.manifest_manager.default_timeout.total_seconds(),
        worker_id=worker_id,
        max_active_jobs=cap if isinstance(cap, int) else None,
        turn=turn,
        free_slots=free_slots,
    )


def runner_parts(parts: WorkerParts, reports: RunReports, hooks: HookDelivery) -> RunnerParts:
    """Give the runner what every run needs."""
    log = parts.settings.run_log
    return RunnerParts(
        registry=parts.registry,
        provided=parts.provided,
        hooks=hooks,
        events=parts.events,
        reports=reports,
        limits=RunLimits(log.max_lines, log.max_line_chars),
        engine=parts.engine,
        max_output_bytes=parts.settings.worker.max_output_bytes,
    )


def finish_rules(parts: WorkerParts) -> FinishRules:
    """Say how long ends are kept, and how many letters may wait."""
    retention = parts.settings.retention
    return FinishRules(
        owner=parts.owner,
        retention=spans_of(retention, parts.settings.cleanup),
        max_awaiting_letters_per_train=retention.max_awaiting_letters_per_train,
        retry=parts.settings.retry,
        is_capped=isinstance(parts.settings.dispatcher.max_active_jobs, int),
        problem_of_input=input_problems(parts.registry),
    )
