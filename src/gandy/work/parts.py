"""The parts of a worker."""

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
    """Dependencies of a worker."""

    owner: str
    database: Database
    settings: Settings
    registry: Registry
    provided: ProvidedValues
    hooks: Hooks
    events: EventBus
    wakeups: Wakeups
    engine: Engine  #: of the application: one for each process
    host: str | None = None  #: the place "module:name", for the import in a child process
    clock: ManualClock | None = None


def dispatch_request(
    parts: WorkerParts, limit: int, *, worker_id: str, trains: Sequence[str], turn: int, free_slots: int
) -> DispatchRequest:
    """Request up to `limit` runs, of which `free_slots` can begin; the user's global cap applies, too."""
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
    """Build the dependencies of the runner."""
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
    """Build the rules of finishing: retention, retries, and the limit on dead letters."""
    retention = parts.settings.retention
    return FinishRules(
        owner=parts.owner,
        retention=spans_of(retention, parts.settings.cleanup),
        max_awaiting_letters_per_train=retention.max_awaiting_letters_per_train,
        retry=parts.settings.retry,
        is_capped=isinstance(parts.settings.dispatcher.max_active_jobs, int),
        problem_of_input=input_problems(parts.registry),
    )
