"""Load, check, run, record: what happens to one claimed run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gandy.admin.job_runner.record import record
from gandy.errors import GandyError
from gandy.model.run import TrainState
from gandy.store.finishing import overruled_end
from gandy.train.failure import failure
from gandy.train.hooks import HookEvent
from gandy.train.inside.run import Run
from gandy.train.route.junction import Required

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gandy.admin.job_runner.reports import RunReport, RunReports
    from gandy.model.outcome import CancelledBy, Outcome
    from gandy.model.run import ClaimedRun, RunEnd
    from gandy.store.finishing import FinishResult
    from gandy.train.engine import Engine
    from gandy.train.execution import ProvidedValues
    from gandy.train.hooks import HookName, Hooks
    from gandy.train.inside.run import RunLimits
    from gandy.train.process.runner import RunSet
    from gandy.train.registry import AnyTrain, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerParts:
    """What the application and the worker give to every run."""

    registry: Registry
    provided: ProvidedValues
    hooks: Hooks
    reports: RunReports
    limits: RunLimits
    engine: Engine
    max_output_bytes: int


# What is on record counts: a run that timed out has failed, and so has one whose output cannot be kept.
HOOKS_BY_STATE: Final[Mapping[TrainState, HookName]] = {
    TrainState.COMPLETED: "completed",
    TrainState.FAILED: "failed",
    TrainState.CANCELLED: "cancelled",
}


class FinishedRun(NamedTuple):
    """A run that is over, and how; it counts once the store has taken the end."""

    claimed: ClaimedRun
    outcome: Outcome[Any]
    end: RunEnd
    report: RunReport | None  #: None: it said nothing


class JobRunner:
    """Takes a claimed run to its end; whatever happens inside becomes that run's own outcome."""

    def __init__(self, parts: RunnerParts) -> None:
        self._parts = parts
        self.running: dict[int, Run] = {}

    async def run(
        self,
        claimed: ClaimedRun,
        worker_id: str,
        *,
        cancelled_by: CancelledBy | None = None,
        together: RunSet | None = None,
        is_leaving: Callable[[], bool] | None = None,
    ) -> FinishedRun:
        """Run one claimed run and return its end; `together` is the set that a suspect is isolated with."""
        parts = self._parts
        run = self._begin(claimed)
        if cancelled_by is not None:
            run.request_cancel(cancelled_by)
        train: AnyTrain | None = None
        outcome: Outcome[Any]
        try:
            train = parts.registry.get(claimed.train)
            value = check_input(train, claimed.input_json)
            if parts.hooks.wants("started"):
                await self._tell_started(run)
            outcome = await parts.engine.execute(
                train, value, run=run, provided=parts.provided, together=together, is_leaving=is_leaving
            )
        except GandyError as error:  # it could not even begin; what it raises itself is in its outcome
            outcome = failure(error, run, junction=None, timings=())
        finally:
            del self.running[claimed.id]
            report = parts.reports.close(run)
        end = record(
            claimed,
            outcome,
            worker_id=worker_id,
            train=train,
            report=report,
            max_output_bytes=parts.max_output_bytes,
            set_size=0 if together is None else together.size,
        )
        return FinishedRun(claimed, outcome, end, report)

    def _begin(self, claimed: ClaimedRun) -> Run:
        run = Run(
            id=claimed.id,
            train=claimed.train,
            manifest=claimed.manifest,
            due_at=claimed.due_at,
            attempt=claimed.attempt,
            fence=claimed.fence,
            sink=self._parts.reports,
            limits=self._parts.limits,
        )
        self.running[claimed.id] = run
        self._parts.reports.open(run, claimed.started_at)
        return run

    async def _tell_started(self, run: Run) -> None:
        await self._parts.hooks.fire(
            HookEvent(
                name="started",
                train=run.train,
                run_id=run.id,
                attempt=run.attempt,
                manifest=run.manifest,
            )
        )


def check_input(train: AnyTrain, input_json: str | None) -> object:
    """Decode a stored input by the train's own type; a train without input gets none."""
    if input_json is not None:
        return train.input.decode(input_json)
    return None if isinstance(train.default_input, Required) else train.default_input


def as_recorded(finished: FinishedRun, result: FinishResult) -> FinishedRun:
    """Give the run as it stands on record: where an operator had cancelled it, that stands."""
    if finished.claimed.id not in result.overruled:
        return finished
    return finished._replace(end=overruled_end(finished.end))


async def tell_hooks(hooks: Hooks, finished: FinishedRun) -> None:
    """Tell the application's hooks, once, after the end is recorded."""
    name = HOOKS_BY_STATE[finished.end.state]
    if hooks.wants(name):
        claimed = finished.claimed
        await hooks.fire(
            HookEvent(
                name=name,
                train=claimed.train,
                run_id=claimed.id,
                attempt=claimed.attempt,
                manifest=claimed.manifest,
                outcome=finished.outcome,
            )
        )
