"""Runs of this process without a worker: started directly, or delivered by another engine."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

from gandy.errors import DatabaseFaultError, JobCancelledError, JobFailedError
from gandy.model.run import Cancelled, CancelledBy, ClaimedRun, Completed, Failed, TrainState
from gandy.rules.ending import is_suspect
from gandy.store.runs import RunStart, claim_delivered, start_run
from gandy.store.workers import hold_worker
from gandy.train.hooks import HookDelivery
from gandy.train.run import running_now
from gandy.work.announcing import announce_ends
from gandy.work.finisher import finish_rules, simplified_end, write_ends
from gandy.work.local_lease import LocalLease
from gandy.work.reports import RunReporter, RunReports
from gandy.work.runner import (
    STORED,
    JobRunner,
    Unattended,
    as_recorded,
)
from gandy.work.tally import RunTally

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from gandy.context import Context
    from gandy.store.runs import StartedRun
    from gandy.store.statements import Operation
    from gandy.train.process.runner import RunSet
    from gandy.train.registry import AnyTrain
    from gandy.work.layouts import LayoutRecord
    from gandy.work.runner import FinishedRun

T = TypeVar("T")
_log = logging.getLogger("gandy.runs")
_NO_GROUP: Final = 0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_LEAVE_SECONDS: Final = 2.0


class LocalRuns:
    """Executes runs with the same runner as a worker, under a lease of this process."""

    def __init__(self, context: Context, layouts: LayoutRecord) -> None:
        self._context = context
        self._layouts = layouts
        self._reports = RunReports()
        self._reporter: asyncio.Task[None] | None = None
        self._hooks = HookDelivery(context.hooks, timeout=context.settings.hooks.timeout)
        self._runner = JobRunner(context, self._reports, self._hooks)
        self._open: dict[asyncio.Task[FinishedRun], int] = {}
        self._tally = RunTally(context.owner)
        self._lease = LocalLease(context, self._runner.running, held=self._open.values, tally=self._tally)
        self._rules = finish_rules(context)

    async def run(self, train: AnyTrain, value: object) -> object:
        """Run a train to its end; return the output or raise the junction's exception."""
        leaving: list[bool] = []
        await self._layouts.record([train])
        with self._lease.claiming():
            claimed, worker_id = await self._start(train, value)
            running, ending = self._begin(claimed, worker_id, value=value, is_leaving=lambda: bool(leaving))
        try:
            finished = await asyncio.shield(ending)
        except asyncio.CancelledError:
            leaving.append(True)
            running.cancel()
            await asyncio.wait([ending], timeout=_LEAVE_SECONDS)
            raise
        return _result(finished)

    async def run_delivered(self, run_id: int) -> bool:
        """Execute a run that a submitter delivered here; return False if it was already started."""
        span = self._context.settings.manifest_manager.default_timeout.total_seconds()
        await self._layouts.record(self._context.registry)
        with self._lease.claiming():
            while True:
                worker_id = await self._lease.hold()
                claim = claim_delivered(run_id, worker_id=worker_id, default_timeout_seconds=span)
                is_held, claimed = await self._context.database.run(_held(worker_id, claim))
                if is_held:
                    break
                self._lease.lose(worker_id)
            if claimed is None:
                return False
            _, ending = self._begin(claimed, worker_id)
        await asyncio.shield(ending)  # cancelling the caller does not cancel the run
        return True

    async def close(self) -> None:
        """Cancel the running runs, wait for their recorded ends, then release the lease and the hooks."""
        grace = self._context.settings.worker.shutdown_grace.total_seconds()
        until = monotonic() + grace
        for run in self._runner.running.values():
            run.request_cancel(CancelledBy.SHUTDOWN, "the application was closed")
        if self._open:
            await asyncio.wait(self._open, timeout=grace)
        for ending in self._open:
            ending.cancel()
        await self._lease.close(_LEAVE_SECONDS)
        if self._reporter is not None:
            self._reporter.cancel()
            await asyncio.wait([self._reporter])
        await self._hooks.close(max(until - monotonic(), 0.0))

    async def _start(self, train: AnyTrain, value: object) -> tuple[ClaimedRun, str]:
        span = train.options.timeout or self._context.settings.manifest_manager.default_timeout
        parent = running_now()
        while True:
            worker_id = await self._lease.hold()
            start = RunStart(
                owner=self._context.owner,
                train=train.name,
                input_json=train.input.encode(value),
                worker_id=worker_id,
                timeout=span,
                parent_id=None if parent is None or parent.id == 0 else parent.id,
            )
            _, started = await self._context.database.run(_held(worker_id, start_run(start)))
            if started is not None:
                return _claimed(start, started), worker_id
            self._lease.lose(worker_id)

    def _begin(
        self,
        claimed: ClaimedRun,
        worker_id: str,
        *,
        value: object = STORED,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> tuple[asyncio.Task[FinishedRun], asyncio.Task[FinishedRun]]:
        """Run in a task, which the job's code may cancel, and record the end in another, which it cannot."""
        if self._reporter is None:
            every = self._context.settings.run_log.flush_every
            reporter = RunReporter(self._context.database, self._reports, every=every)
            self._reporter = asyncio.create_task(reporter.run(), name="gandy-run-reporter")
        running = asyncio.create_task(
            self._run(claimed, worker_id, value=value, is_leaving=is_leaving),
            name=f"gandy-run-{claimed.id}",
        )
        ending = asyncio.create_task(self._end(running), name=f"gandy-end-{claimed.id}")
        self._open[ending] = claimed.id
        ending.add_done_callback(self._open.pop)
        return running, ending

    async def _run(
        self, claimed: ClaimedRun, worker_id: str, *, value: object, is_leaving: Callable[[], bool]
    ) -> FinishedRun:
        with self._isolated(claimed) as together:
            return await self._runner.run(
                claimed,
                worker_id,
                together=together,
                is_leaving=is_leaving,
                unattended=Unattended(value=value),
            )

    def _isolated(self, claimed: ClaimedRun) -> AbstractContextManager[RunSet | None]:
        """Isolate a suspect, which may have killed its earlier processes, in its own process."""
        engine, registry = self._context.engine, self._context.registry
        if not is_suspect(claimed.losses) or claimed.train not in registry:
            return nullcontext()
        return engine.isolation(1, is_here=not engine.can_leave(registry.get(claimed.train)))

    async def _end(self, running: asyncio.Task[FinishedRun]) -> FinishedRun:
        """Write the end, with back-off during an outage of the database; simplify an end that it refuses."""
        finished, pause = await running, _FIRST_PAUSE
        while True:
            try:
                recorded = await self._write(finished)
            except DatabaseFaultError as error:
                _log.warning("the end of run %d is not written yet: %s", finished.end.id, error)
            except Exception as error:  # noqa: BLE001 - the database refused this end
                _log.error("the end of run %d cannot be stored unchanged: %s", finished.end.id, error)
                finished = simplified_end(finished, error) or finished
            else:
                return recorded
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _write(self, finished: FinishedRun) -> FinishedRun:
        result = await self._context.database.run(write_ends([finished], self._rules))
        self._tally.count(result.measures)
        if result.refused:
            _log.warning("run %d of %s was already ended elsewhere", finished.end.id, finished.end.train)
        announce_ends([finished], result, events=self._context.events, hooks=self._hooks)
        return as_recorded(finished, result)


def _held(worker_id: str, work: Operation[T]) -> Operation[tuple[bool, T | None]]:
    """Execute an operation only while the lease is valid: the runs of a lost process are recovered."""
    if not (yield from hold_worker(worker_id)):
        return False, None
    return True, (yield from work)


def _claimed(start: RunStart, started: StartedRun) -> ClaimedRun:
    return ClaimedRun(
        id=started.id,
        fence=started.fence,
        train=start.train,
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
        is_retried=False,  # the caller gets the failure and decides
        retry_delay_seconds=None,
        timeout_seconds=start.timeout.total_seconds(),
        unique_key=None,
    )


def _result(finished: FinishedRun) -> object:
    """Return the output or raise the exception; if only the record failed, raise JobFailedError."""
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
