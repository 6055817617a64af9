"""Finishing in batches: ends gather while the last batch is written; nobody runs far ahead of the record."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from gandy.admin.job_runner.runner import as_recorded, tell_hooks
from gandy.errors import DatabaseBusyError, DatabaseUnreachableError, GandyError, RowConflictError
from gandy.events import DeadLettered, RunFinished, WriteFenced
from gandy.model.run import Failure, TrainState
from gandy.store.finishing import finish_runs
from gandy.store.logs import keep_logs, settle_logs
from gandy.train.hooks import HookEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gandy.admin.job_runner.runner import FinishedRun
    from gandy.events import EventBus
    from gandy.model.run import RunEnd
    from gandy.store.drivers.database import Session
    from gandy.store.finishing import FinishResult, FinishRules
    from gandy.store.statements import Operation
    from gandy.train.hooks import Hooks

_log = logging.getLogger("gandy.worker")

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
GATHER_SECONDS: Final = 0.01


class Finisher:
    """Writes ends as fast as the database takes them; a fault of the database only delays them."""

    def __init__(
        self,
        session: Session,
        rules: FinishRules,
        *,
        batch: int,
        hooks: Hooks,
        events: EventBus,
        on_drained: Callable[[], None],
        is_busy: Callable[[], bool],
    ) -> None:
        """Take `is_busy`, which says whether more ends are about to come: they are then written together."""
        self._session = session
        self._rules = rules
        self._batch = batch
        self._hooks = hooks
        self._events = events
        self._waiting: list[FinishedRun] = []
        self._writing = 0
        self._on_drained = on_drained
        self._is_busy = is_busy
        self._full = asyncio.Event()
        self._has_hooks = any(hooks.wants(name) for name in ("completed", "failed", "cancelled"))
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._held_back: frozenset[int] = frozenset()
        self._released = asyncio.Event()
        self.retried = 0
        self.parked = 0

    def add(self, finished: FinishedRun) -> None:
        """Take an end; it is written soon."""
        self._waiting.append(finished)
        if len(self._waiting) == 1:  # with more of them there, it is awake
            self._wake.set()
        if len(self._waiting) >= self._batch:
            self._full.set()
            if len(self._waiting) >= 2 * self._batch:
                self._room.clear()

    @property
    def has_room(self) -> bool:
        """Whether the database keeps up."""
        return self._room.is_set()

    async def wait_for_room(self) -> None:
        """Hold a slot back while the database does not keep up."""
        await self._room.wait()

    @contextmanager
    def holding_back(self, run_ids: Iterable[int]) -> Iterator[None]:
        """Record no end of these runs before lines of theirs that are on their way have arrived."""
        self._held_back = frozenset(run_ids)
        try:
            yield
        finally:
            self._held_back = frozenset()
            self._released.set()

    @property
    def unwritten(self) -> int:
        """How many ends are not on record yet."""
        return len(self._waiting) + self._writing

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._gather()
                taken, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
                self._writing = len(taken)
                await self._write_persistently(taken)
                self._writing = 0
                self._room.set()
            self._on_drained()

    async def _gather(self) -> None:
        """Let a full set come together while more ends are about to come, for a moment at most."""
        if len(self._waiting) < self._batch and self._is_busy():
            self._full.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), GATHER_SECONDS)

    async def _write_persistently(self, taken: Sequence[FinishedRun]) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._write(taken)
            except (DatabaseUnreachableError, DatabaseBusyError) as error:
                _log.warning("%d ends not written yet: %s", len(taken), error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _write(self, taken: Sequence[FinishedRun]) -> None:
        """Write a set; one that is refused is halved until the bad end stands alone."""
        while self._held_back and any(finished.claimed.id in self._held_back for finished in taken):
            self._released.clear()
            await self._released.wait()
        try:
            result = await self._session.run(self._finish(taken))
        except RowConflictError as error:
            if len(taken) == 1:
                return await self._write_as_failed(taken[0], error)
            middle = len(taken) // 2
            await self._write_persistently(taken[:middle])
            return await self._write_persistently(taken[middle:])
        await self._tell(taken, result)
        return None

    async def _write_as_failed(self, finished: FinishedRun, error: GandyError) -> None:
        """The end itself cannot be stored: the run fails with what the database said."""
        end = finished.end
        if end.state is TrainState.FAILED and end.output_json is None and end.junctions_json is None:
            _log.error("the end of run %d cannot be stored: %s", end.id, error)
            return
        failure = Failure(None, type(error).__name__, f"its end could not be stored: {error}")
        bare = finished._replace(end=_bare(end, failure))
        await self._write_persistently([bare])

    def _finish(self, taken: Sequence[FinishedRun]) -> Operation[FinishResult]:
        """Record the ends together with the last lines of their logs."""
        result = yield from finish_runs([finished.end for finished in taken], self._rules)
        reports = [finished.report for finished in taken if finished.report is not None]
        lines = [line for report in reports for line in report.lines]
        if lines:
            yield from keep_logs(lines, result.finished)
        early = {
            report.run.id: result.finished[report.run.id]
            for report in reports
            if report.has_written_lines and report.run.id in result.finished
        }
        if early:
            yield from settle_logs(early)
        return result

    async def _tell(self, taken: Sequence[FinishedRun], result: FinishResult) -> None:
        """Tell everybody what is on record now; the ends that were refused are somebody else's to tell."""
        self.retried += result.retried
        self.parked += len(result.parked)
        if result.refused:
            _log.warning("%d ends refused: their runs were given to others", len(result.refused))
            self._events.emit(WriteFenced(statement="end_runs", count=len(result.refused)))
        if self._events.is_heard or self._has_hooks:
            for finished in taken:
                if finished.claimed.id in result.finished:
                    on_record = as_recorded(finished, result)
                    self._events.emit(_finished_event(on_record))
                    await tell_hooks(self._hooks, on_record)
        if result.parked:
            parked = set(result.parked)
            for finished in taken:
                if finished.claimed.id in parked:
                    await self._tell_parked(finished)

    async def _tell_parked(self, finished: FinishedRun) -> None:
        claimed, failure = finished.claimed, finished.end.failure
        reason = failure.reason if failure else ""
        self._events.emit(
            DeadLettered(run_id=claimed.id, train=claimed.train, manifest=claimed.manifest, reason=reason)
        )
        if self._hooks.wants("dead_lettered"):
            await self._hooks.fire(
                HookEvent(
                    name="dead_lettered",
                    train=claimed.train,
                    run_id=claimed.id,
                    attempt=claimed.attempt,
                    manifest=claimed.manifest,
                    outcome=finished.outcome,
                    reason=reason,
                )
            )


def _finished_event(finished: FinishedRun) -> RunFinished:
    claimed, end = finished.claimed, finished.end
    timings = finished.outcome.timings
    last = timings[-1] if timings else None
    return RunFinished(
        run_id=claimed.id,
        train=claimed.train,
        manifest=claimed.manifest,
        attempt=claimed.attempt,
        state=_STATE_WORDS[end.state],
        took=timedelta(microseconds=(last.started_ns + last.duration_ns) // 1000 if last else 0),
        failure=end.failure.exception if end.failure else None,
    )


_STATE_WORDS: Final[dict[TrainState, Literal["completed", "failed", "cancelled"]]] = {
    TrainState.COMPLETED: "completed",
    TrainState.FAILED: "failed",
    TrainState.CANCELLED: "cancelled",
}


def _bare(end: RunEnd, failure: Failure) -> RunEnd:
    return end._replace(
        state=TrainState.FAILED, failure=failure, output_json=None, junctions_json=None, activations=()
    )
