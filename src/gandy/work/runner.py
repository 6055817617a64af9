"""Run one job: its input, its execution, and its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gandy.errors import GandyError, TrainProcessError
from gandy.events import RunStarted
from gandy.model.layout import Layouts
from gandy.model.run import Cancelled, CancelledBy, EndedBy, Failed, RunEnd, TrainState
from gandy.settings import format_duration
from gandy.settings.bounds import as_span
from gandy.store.finishing import overruled_end
from gandy.store.waiting import refused_end
from gandy.train.endings import bare_failure, describe, without_secrets
from gandy.train.failure import failure, type_path
from gandy.train.hooks import HookEvent
from gandy.train.junctions import Required
from gandy.train.run import Run, RunLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gandy.context import Context
    from gandy.model.run import ClaimedRun, Outcome
    from gandy.store.finishing import FinishResult
    from gandy.store.waiting import InputProblem
    from gandy.train.endings import Ending
    from gandy.train.hooks import HookDelivery, HookName
    from gandy.train.process.runner import RunSet
    from gandy.train.registry import AnyTrain, Registry
    from gandy.work.reports import RunReport, RunReports


def record(
    claimed: ClaimedRun,
    ending: Ending,
    *,
    worker_id: str,
    keep_for: timedelta | None,
    report: RunReport | None,
    was_alone: bool,
) -> RunEnd:
    """Return the end of a claimed run, with everything that finishing needs.

    `was_alone`: it was isolated in its own process.
    """
    delay = claimed.retry_delay_seconds
    end = RunEnd(  # by position, which is faster: thousands are made each second
        claimed.id,
        claimed.train,
        worker_id,
        claimed.fence,
        ending.state,
        ending.ended_by,
        claimed.manifest_id,
        ending.output_json,
        ending.junctions_json,
        ending.failure,
        keep_for,
        ending.retry_after,
        claimed.failures,
        claimed.losses,
        claimed.lone_losses,
        was_alone,
        claimed.max_retries,
        claimed.is_retried,
        None if delay is None else as_span(delay),
        claimed.unique_key,
    )
    if ending.gives_up:
        end = end._replace(gives_up=True)
    return end if report is None else _with_report(end, report)


def _with_report(end: RunEnd, report: RunReport) -> RunEnd:
    """Add the run's progress and activations."""
    progress = report.progress
    return end._replace(
        progress_done=progress.done if progress else None,
        progress_total=progress.total if progress else None,
        activations=tuple(report.activations),
    )


def judged(ending: Ending, outcome: Outcome[Any]) -> Ending:
    """Record the death of a suspects' process as a loss of each unfinished run."""
    error = outcome.exception if isinstance(outcome, Failed) else None
    if type(error) is TrainProcessError and error.process_exit_code is not None:
        return ending._replace(ended_by=EndedBy.LOST_WORKER)
    return ending


# By the recorded state: a run that timed out, or whose output cannot be stored, has failed.
HOOKS_BY_STATE: Final[Mapping[TrainState, HookName]] = {
    TrainState.COMPLETED: "completed",
    TrainState.FAILED: "failed",
    TrainState.CANCELLED: "cancelled",
}


class FinishedRun(NamedTuple):
    """A run with its outcome; its end is valid only once the store has recorded it."""

    claimed: ClaimedRun
    outcome: Outcome[Any]
    end: RunEnd
    report: RunReport | None  #: None: it reported nothing
    masks: Run | None = None  #: the run, if it has secrets: keeps them masked while its hooks run


class Stored(NamedTuple):
    """Marks that the input is the one of the claim."""


STORED: Final = Stored()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattended:
    """A run without an attendant: the runner enforces its timeout; cancelling the caller cancels the run."""

    value: object = STORED  #: the input, if the caller already has it decoded


class JobRunner:
    """Executes a claimed run; any exception becomes the outcome of that run."""

    def __init__(self, context: Context, reports: RunReports, hooks: HookDelivery) -> None:
        log = context.settings.run_log
        self._context = context
        self._reports = reports
        self._hooks = hooks
        self._limits = RunLimits(log.max_lines, log.max_line_chars)
        self._max_output_bytes = context.settings.worker.max_output_bytes
        self.running: dict[int, Run] = {}

    async def run(
        self,
        claimed: ClaimedRun,
        worker_id: str,
        *,
        cancelled_by: CancelledBy | None = None,
        together: RunSet | None = None,
        held_for: float = 0.0,
        is_leaving: Callable[[], bool] | None = None,
        unattended: Unattended | None = None,
        task: asyncio.Task[Any] | None = None,
    ) -> FinishedRun:
        """Run one claimed run and return its end.

        `together` is the set that a suspect is isolated with, `held_for` the seconds that the run waited
        after its claim. A cancellation of this task propagates if `is_leaving` returns True (without it:
        always). Cancelling the caller of an `unattended` run cancels the run. `task` is the current task, if
        the caller knows it.
        """
        context = self._context
        run = self._begin(claimed)
        if cancelled_by is not None:
            run.request_cancel(cancelled_by)
        alarm = None if unattended is None else _Alarm(run, claimed.timeout_seconds)
        train: AnyTrain | None = None
        outcome: Outcome[Any]
        try:
            if context.events.has_subscribers or self._hooks.wants("started"):
                self._tell_started(claimed, held_for)
            train = context.registry.get(claimed.train)
            if unattended is None or unattended.value is STORED:
                _hide_secrets(train, claimed.input_json, run)
                value = check_input(train, claimed.input_json)
            else:
                value = unattended.value
            outcome = await context.engine.execute(
                train,
                value,
                run=run,
                provided=context.provided,
                together=together,
                is_leaving=is_leaving,
                task=task,
            )
        except BaseException as error:  # not from the job's code, whose exceptions are in its outcome
            if _passes(error, is_leaving, is_kept=unattended is not None):
                raise
            outcome = _stopped(error, run)
        finally:
            if alarm is not None:
                alarm.cancel()
            del self.running[claimed.id]
            report = self._reports.close(run)
        try:
            ending = self._describe(outcome, train, run)
        except BaseException as error:  # noqa: BLE001 - the output is serialized by application code
            outcome = failure(error, run, junction=None, timings=outcome.timings)
            try:
                ending = self._describe(outcome, train, run)
            except BaseException:  # noqa: BLE001 - such as a module that the job has changed
                ending = bare_failure(outcome)
        if together is not None:
            ending = judged(ending, outcome)
        end = record(
            claimed,
            ending,
            worker_id=worker_id,
            keep_for=None if train is None else train.options.keep_for,
            report=report,
            was_alone=together is not None and together.size == 1,
        )
        return FinishedRun(claimed, outcome, end, report, run if run.has_secrets else None)

    def _describe(self, outcome: Outcome[Any], train: AnyTrain | None, run: Run) -> Ending:
        ending = describe(outcome, train, max_output_bytes=self._max_output_bytes)
        return without_secrets(ending, run, train) if run.has_secrets else ending

    def _begin(self, claimed: ClaimedRun) -> Run:
        run = Run(
            id=claimed.id,
            train=claimed.train,
            manifest=claimed.manifest,
            due_at=claimed.due_at,
            attempt=claimed.attempt,
            fence=claimed.fence,
            sink=self._reports,
            limits=self._limits,
            timeout_seconds=claimed.timeout_seconds,
            dormant=self._context.registry.dormant,
        )
        self.running[claimed.id] = run
        self._reports.open(run, claimed.started_at)
        return run

    def _tell_started(self, claimed: ClaimedRun, held_for: float) -> None:
        """Announce the start of a run; its hooks are called concurrently."""
        self._context.events.emit(
            RunStarted(
                run_id=claimed.id,
                train=claimed.train,
                manifest=claimed.manifest,
                attempt=claimed.attempt,
                waited_for=claimed.started_at - claimed.waited_since + timedelta(seconds=held_for),
            )
        )
        if self._hooks.wants("started"):
            self._hooks.deliver(
                HookEvent(
                    name="started",
                    train=claimed.train,
                    run_id=claimed.id,
                    attempt=claimed.attempt,
                    manifest=claimed.manifest,
                )
            )


def check_input(train: AnyTrain, input_json: str | None) -> object:
    """Decode a stored input by the train's type; without a stored input return the default."""
    if input_json is not None:
        return train.input.decode(input_json)
    return None if isinstance(train.default_input, Required) else train.default_input


def input_problems(registry: Registry) -> InputProblem:
    """Return a function that checks a stored input against its train's type, for activations at run time."""

    def problem_of(train: str, input_json: str) -> str | None:
        try:
            registry.get(train).input.decode(input_json)
        except GandyError as error:  # also if the train is unknown here
            return str(error)
        return None

    return problem_of


def _hide_secrets(train: AnyTrain, input_json: str | None, run: Run) -> None:
    """Mask the secrets of a stored input before it is decoded: a decoding error may quote it."""
    if input_json is not None and train.input.has_secrets:
        run.hide(Layouts([train.input.layout]).secrets(input_json))


def as_recorded(finished: FinishedRun, result: FinishResult) -> FinishedRun:
    """Return the run as recorded: an operator's cancellation or a refused activation changes its end."""
    if finished.claimed.id in result.overruled:
        return finished._replace(end=overruled_end(finished.end))
    error = result.refused_activations.get(finished.claimed.id)
    if error is None:
        return finished
    end = refused_end(finished.end, error)
    path, reason = type_path(type(error)), str(error)
    outcome = Failed(error, None, path, reason, stack_trace=reason, timings=finished.outcome.timings)
    return finished._replace(end=end, outcome=outcome)


class _Alarm:
    """Cancels an unattended run at its timeout, which does not include the wait for a process."""

    def __init__(self, run: Run, seconds: float) -> None:
        self._run = run
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._set(seconds)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, seconds: float) -> None:
        if seconds < inf:  # NO_TIMEOUT
            self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        run = self._run
        left = self._seconds
        if not run.is_waiting:
            left -= (perf_counter_ns() - run.counts_from_ns) / 1e9
        if left > 0:
            self._set(left)
            return
        span = format_duration(timedelta(seconds=self._seconds))
        run.request_cancel(CancelledBy.TIMEOUT, f"the run took longer than {span}")


def _passes(error: BaseException, is_leaving: Callable[[], bool] | None, *, is_kept: bool) -> bool:
    """Return whether the exception ends the task and not only its run."""
    if isinstance(error, asyncio.CancelledError):
        return not is_kept and (is_leaving is None or is_leaving())
    if isinstance(error, GeneratorExit):
        try:
            asyncio.current_task()
        except RuntimeError:  # the coroutine was closed from outside, no loop runs it
            return True
    return False


def _stopped(error: BaseException, run: Run) -> Outcome[Any]:
    if isinstance(error, asyncio.CancelledError):
        return Cancelled(CancelledBy.CALLER, "the task that ran it was cancelled", run.junction)
    return failure(error, run, junction=None, timings=())
