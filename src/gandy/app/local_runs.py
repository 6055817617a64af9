"""Running a train here and now, with a record."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, assert_never
from uuid import uuid4

from gandy.admin.job_runner.record import record
from gandy.admin.job_runner.reports import RunReports
from gandy.admin.job_runner.runner import FinishedRun, as_recorded, check_input, tell_hooks
from gandy.errors import GandyError, JobCancelledError, JobFailedError
from gandy.events import RunFinished, RunStarted
from gandy.model.outcome import Cancelled, CancelledBy, Completed, Failed
from gandy.model.run import ClaimedRun, RetentionSpans, TrainState
from gandy.services.run_reporter import RunReporter
from gandy.settings import format_duration
from gandy.store.delivering import claim_delivered
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.logs import keep_logs, settle_logs
from gandy.store.runs import RunStart, start_run
from gandy.train.failure import failure
from gandy.train.hooks import HookEvent
from gandy.train.inside.run import Run, RunLimits, running_now

if TYPE_CHECKING:
    from typing import Literal

    from gandy.admin.job_runner.reports import RunReport
    from gandy.app.opening import OpenApp
    from gandy.model.outcome import Outcome
    from gandy.model.run import RunEnd
    from gandy.store.finishing import FinishResult
    from gandy.store.statements import Operation
    from gandy.train.registry import AnyTrain

_log = logging.getLogger("gandy.runs")
_NO_GROUP: Final = 0


@dataclass(frozen=True, slots=True)
class _LocalRun:
    train: AnyTrain | None  # None: the application does not know it
    value: object
    claimed: ClaimedRun
    run: Run


class LocalRuns:
    """The runs that this process started by itself, outside the queue."""

    def __init__(self, app: OpenApp) -> None:
        self._app = app
        self._reports = RunReports()
        self._reporter: asyncio.Task[None] | None = None
        self._running: set[Run] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._worker_id = f"local-{uuid4().hex}"
        settings = app.settings
        self._limits = RunLimits(settings.run_log.max_lines, settings.run_log.max_line_chars)
        kept = settings.retention
        self._rules = FinishRules(
            owner=app.name,
            retention=RetentionSpans(kept.completed, kept.failed, kept.cancelled),
            max_awaiting_letters_per_train=kept.max_awaiting_letters_per_train,
        )

    async def run(self, train: AnyTrain, value: object) -> object:
        """Run to the end; return the output or raise what a junction raised."""
        local = await self._start(train, value)
        try:
            outcome = await self._execute(local, train)
        except asyncio.CancelledError:
            stopped = Cancelled(CancelledBy.CALLER, "the task that ran it was cancelled", local.run.junction)
            await asyncio.shield(self._finish(local, stopped))
            raise
        return _result(await asyncio.shield(self._finish(local, outcome)))

    async def run_delivered(self, run_id: int) -> bool:
        """Take up a run that a submitter brought here; False where it was taken up before."""
        span = self._app.settings.manifest_manager.default_timeout
        claimed = await self._app.database.run(
            claim_delivered(run_id, worker_id=self._worker_id, default_timeout_seconds=span.total_seconds())
        )
        if claimed is None:
            return False
        run = self._open(claimed)
        await asyncio.shield(self._finish_delivered(claimed, run))
        return True

    async def _finish_delivered(self, claimed: ClaimedRun, run: Run) -> None:
        try:
            train = self._app.registry.get(claimed.train)
            local = _LocalRun(train, check_input(train, claimed.input_json), claimed, run)
        except GandyError as error:
            unusable = _LocalRun(None, None, claimed, run)
            await self._finish(unusable, failure(error, run, junction=None, timings=()))
        else:
            await self._finish(local, await self._execute(local, train))

    async def close(self) -> None:
        """Stop what still runs, so that its end is recorded, then the loop behind the reports."""
        for run in self._running:
            run.request_cancel(CancelledBy.SHUTDOWN, "the application was closed")
        grace = self._app.settings.worker.shutdown_grace.total_seconds()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), grace)
        if self._reporter is not None:
            self._reporter.cancel()
            await asyncio.wait([self._reporter])

    async def _start(self, train: AnyTrain, value: object) -> _LocalRun:
        span = train.options.timeout or self._app.settings.manifest_manager.default_timeout
        parent = running_now()
        start = RunStart(
            owner=self._app.name,
            train=train.name,
            input_json=train.input.encode(value),
            worker_id=self._worker_id,
            timeout=span,
            parent_id=None if parent is None or parent.id == 0 else parent.id,
        )
        started = await self._app.database.run(start_run(start))
        claimed = ClaimedRun(
            id=started.id,
            fence=started.fence,
            train=train.name,
            input_json=start.input_json,
            manifest_id=None,
            manifest=None,
            group_id=_NO_GROUP,
            due_at=started.started_at,
            attempt=1,
            started_at=started.started_at,
            waited_since=started.started_at,
            failures=0,
            losses=0,
            lone_losses=0,
            max_retries=None,
            is_retried=False,  # who asked sees the failure and decides
            retry_delay_seconds=None,
            timeout_seconds=span.total_seconds(),
            unique_key=None,
        )
        run = self._open(claimed)
        return _LocalRun(train, value, claimed, run)

    def _open(self, claimed: ClaimedRun) -> Run:
        run = Run(
            id=claimed.id,
            train=claimed.train,
            manifest=claimed.manifest,
            due_at=claimed.due_at,
            attempt=claimed.attempt,
            fence=claimed.fence,
            sink=self._reports,
            limits=self._limits,
        )
        self._running.add(run)
        self._quiet.clear()
        self._reports.open(run, claimed.started_at)
        if self._reporter is None:
            every = self._app.settings.run_log.flush_every
            reporter = RunReporter(self._app.database, self._reports, every=every)
            self._reporter = asyncio.create_task(reporter.run(), name="gandy-run-reporter")
        return run

    async def _execute(self, local: _LocalRun, train: AnyTrain) -> Outcome[object]:
        await self._tell_started(local.run)
        seconds = local.claimed.timeout_seconds
        reason = f"the run took longer than {format_duration(timedelta(seconds=seconds))}"
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(seconds, local.run.request_cancel, CancelledBy.TIMEOUT, reason)
        try:
            return await self._app.engine.execute(
                train, local.value, run=local.run, provided=self._app.values
            )
        finally:
            alarm.cancel()

    async def _finish(self, local: _LocalRun, outcome: Outcome[object]) -> FinishedRun:
        try:
            return await self._record(local, outcome)
        finally:
            self._running.discard(local.run)
            if not self._running:
                self._quiet.set()

    async def _record(self, local: _LocalRun, outcome: Outcome[object]) -> FinishedRun:
        report = self._reports.close(local.run)
        end = record(
            local.claimed,
            outcome,
            worker_id=self._worker_id,
            train=local.train,
            max_output_bytes=self._app.settings.worker.max_output_bytes,
            report=report,
        )
        result = await self._app.database.run(_write_end(end, self._rules, report))
        if result.refused:
            _log.warning("run %s of %s was ended by somebody else meanwhile", end.id, end.train)
        finished = as_recorded(FinishedRun(local.claimed, outcome, end, report), result)
        self._emit_end(finished)
        await tell_hooks(self._app.hooks, finished)
        return finished

    async def _tell_started(self, run: Run) -> None:
        self._app.events.emit(
            RunStarted(
                run_id=run.id, train=run.train, manifest=None, attempt=run.attempt, waited_for=timedelta(0)
            )
        )
        if self._app.hooks.wants("started"):
            event = HookEvent(name="started", train=run.train, run_id=run.id, attempt=run.attempt)
            await self._app.hooks.fire(event)

    def _emit_end(self, finished: FinishedRun) -> None:
        end, timings = finished.end, finished.outcome.timings
        took_ns = max((timing.started_ns + timing.duration_ns for timing in timings), default=0)
        self._app.events.emit(
            RunFinished(
                run_id=end.id,
                train=end.train,
                manifest=None,
                attempt=finished.claimed.attempt,
                state=_ended_as(end.state),
                took=timedelta(microseconds=took_ns // 1_000),
                failure=end.failure.exception if end.failure else None,
            )
        )


def _ended_as(state: TrainState) -> Literal["completed", "failed", "cancelled"]:
    if state is TrainState.COMPLETED:
        return "completed"
    return "cancelled" if state is TrainState.CANCELLED else "failed"


def _write_end(end: RunEnd, rules: FinishRules, report: RunReport | None) -> Operation[FinishResult]:
    result = yield from finish_runs([end], rules)
    if report is not None:
        if report.has_written_lines:
            yield from settle_logs(result.finished)
        yield from keep_logs(report.lines, result.finished)
    return result


def _result(finished: FinishedRun) -> object:
    """Give the caller what the train gave; what only the record knows is an error with the run's id."""
    outcome, end = finished.outcome, finished.end
    reason = end.failure.reason if end.failure else None
    exception = end.failure.exception if end.failure else None
    match outcome:
        case Failed():
            raise outcome.exception
        case Completed() if end.state is TrainState.COMPLETED:
            return outcome.value
        case Cancelled() if end.state is TrainState.CANCELLED:
            raise JobCancelledError(end.id, end.train, by=outcome.by)
        case Completed() | Cancelled():
            raise JobFailedError(end.id, end.train, exception=exception, reason=reason)
        case _:
            assert_never(outcome)
