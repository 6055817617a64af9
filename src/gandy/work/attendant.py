"""Supervise running jobs: timeouts, cancellations, reports, and the isolation of suspects."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

from gandy.errors import DatabaseFaultError, GandyError, UnknownTrainError
from gandy.loops.wakeups import wait_within
from gandy.model.run import CancelledBy
from gandy.rules.ending import most_in_set
from gandy.store.reports import write_reports
from gandy.store.runs import ProgressRow, read_cancellations, report_progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from gandy.model.run import ClaimedRun
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation
    from gandy.train.base import Engine
    from gandy.train.process.runner import RunSet
    from gandy.train.registry import Registry
    from gandy.train.run import Run
    from gandy.work.buffer import RunBuffer
    from gandy.work.finisher import Finisher
    from gandy.work.reports import Pending, RunReports
    from gandy.work.runner import JobRunner


_log = logging.getLogger("gandy.worker")

LOOK_EVERY: Final = 0.5
IGNORED_AFTER: Final = 10.0
NANOSECONDS: Final = 1_000_000_000


class Attendant:
    """Supervises the runs of one worker twice a second, and at once after a notification."""

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        *,
        reports: RunReports,
        finisher: Finisher,
        held: Callable[[], list[int]],
    ) -> None:
        """Take `held`, which returns the claimed runs that have not begun: they may be cancelled, too."""
        self._database = database
        self._runner = runner
        self._reports = reports
        self._finisher = finisher
        self._asked: WeakKeyDictionary[Run, float] = WeakKeyDictionary()
        self._held = held
        self._asked_early: dict[int, CancelledBy] = {}
        self._look = asyncio.Event()

    def asked_early(self, run_id: int) -> CancelledBy | None:
        """Return the origin of a request to cancel a run before it began, or None."""
        return self._asked_early.pop(run_id, None) if self._asked_early else None

    def look(self, run_id: str) -> None:
        """Wake the loop at once if this worker has the run: it was asked to stop."""
        if run_id.isdecimal() and (int(run_id) in self._runner.running or int(run_id) in self._held()):
            self._look.set()

    async def run(self) -> None:
        """Supervise for ever, also through outages of the database."""
        while True:
            with contextlib.suppress(TimeoutError):
                await wait_within(self._look, LOOK_EVERY)
            self._look.clear()
            if self._runner.running or self._held():
                self._stop_overdue()
                try:
                    await self._exchange()
                except GandyError as error:
                    _log.warning("could not write reports and read cancellations of running runs: %s", error)
                    await asyncio.sleep(LOOK_EVERY)  # back-off: the wake-up event may be set again at once

    def cancel_all(self, by: CancelledBy, reason: str) -> None:
        """Ask every run to stop."""
        for run_id in list(self._runner.running):
            self.cancel(run_id, by, reason)

    def _stop_overdue(self) -> None:
        """Cancel runs beyond their timeout, which does not include the wait for a process."""
        now = time.perf_counter_ns()
        for run_id, run in list(self._runner.running.items()):
            if not run.is_waiting and now - run.counts_from_ns > run.timeout_seconds * NANOSECONDS:
                self.cancel(run_id, CancelledBy.TIMEOUT, f"it took longer than {run.timeout_seconds:g} s")

    async def _exchange(self) -> None:
        """Read requests to cancel and write the reports of runs, in one transaction."""
        pending = self._reports.take()
        with self._finisher.holding_back({line.run_id for line in pending.lines} if pending else ()):
            ids = [*self._runner.running, *self._held()]
            asked = await self._ask_and_report(ids, pending)
        held = set(self._held())
        self._asked_early = {run_id: by for run_id, by in asked.items() if run_id in held}
        for run_id, by in asked.items():
            self.cancel(run_id, by, "")

    async def _ask_and_report(self, ids: list[int], pending: Pending | None) -> Mapping[int, CancelledBy]:
        try:
            return await self._database.run(_exchange(ids, pending, self._ignoring()))
        except DatabaseFaultError:
            raise
        except Exception as error:  # noqa: BLE001 - a report was refused: write them one by one
            _log.warning("reports of runs were refused; writing them one by one: %s", error)
        if pending is not None:
            await write_reports(self._database, pending.lines, pending.progress)
        return await self._database.read(read_cancellations(ids))

    def _ignoring(self) -> list[ProgressRow]:
        """Return a mark for each run that still runs IGNORED_AFTER seconds after the request to stop."""
        now = time.monotonic()
        late = [
            run
            for run, asked in self._asked.items()
            if now - asked > IGNORED_AFTER and self._runner.running.get(run.id) is run
        ]
        for run in late:
            self._asked[run] = inf
        return [
            ProgressRow(run.id, run.fence, None, None, run.junction, ignores_cancellation=True)
            for run in late
        ]

    def cancel(self, run_id: int, by: CancelledBy, reason: str) -> None:
        """Ask a run to stop, once."""
        run = self._runner.running.get(run_id)
        if run is not None and run not in self._asked:
            self._asked[run] = time.monotonic()
            run.request_cancel(by, reason)


def _exchange(
    ids: list[int], pending: Pending | None, ignoring: list[ProgressRow]
) -> Operation[Mapping[int, CancelledBy]]:
    asked = yield from read_cancellations(ids)
    if pending is not None:
        yield from pending.write()
    if ignoring:
        yield from report_progress(ignoring)
    return asked


RunOne: TypeAlias = "Callable[[ClaimedRun, RunSet], Awaitable[None]]"


class Suspects:
    """Takes suspects from their buffer and runs them: several sets concurrently, each in its own process.

    Runs that wait for a process stay in the buffer, from which they can be put back.
    """

    def __init__(
        self,
        buffer: RunBuffer,
        engine: Engine,
        registry: Registry,
        *,
        run_one: RunOne,
        slots: int,
        processes: int,
    ) -> None:
        """Take `run_one`, which executes a run; at most `slots` runs in `processes` sets are active."""
        self._buffer = buffer
        self._engine = engine
        self._registry = registry
        self._run_one = run_one
        self._free_slots = slots
        self._free_processes = processes
        self._is_here_free = True
        self._sets: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Begin a set whenever suspects and a process are available; cancel all sets at the end."""
        try:
            while True:
                self._buffer.arrived.clear()
                while self._begin_here() or self._begin_apart():
                    pass
                await self._buffer.arrived.wait()
        finally:
            for each in self._sets:
                each.cancel()

    def _begin_here(self) -> bool:
        """Begin a run that cannot leave this process; only one such run is active."""
        chosen = self._buffer.take(1, self._is_bound) if self._is_here_free else []
        if chosen:
            self._is_here_free = False
            self._start(self._run_set(chosen, is_here=True), self._free_here)
        return bool(chosen)

    def _begin_apart(self) -> bool:
        """Begin a set of suspects that were lost equally often: a set whose process died is halved."""
        if not self._free_processes or not self._free_slots:
            return False
        first = self._buffer.find(lambda run: not self._is_bound(run))
        if first is None:
            return False

        def is_alike(run: ClaimedRun) -> bool:
            return run.losses == first.losses and not self._is_bound(run)

        most = most_in_set(first.losses, sum(map(is_alike, self._buffer.runs)))
        chosen = self._buffer.take(min(most, self._free_slots), is_alike)
        self._free_processes -= 1
        self._free_slots -= len(chosen)
        self._start(self._run_set(chosen, is_here=False), lambda: self._free_apart(len(chosen)))
        return True

    def _is_bound(self, run: ClaimedRun) -> bool:
        try:
            return not self._engine.can_leave(self._registry.get(run.train))
        except UnknownTrainError:  # it will fail at once; no process is needed
            return True

    async def _run_set(self, chosen: Sequence[ClaimedRun], *, is_here: bool) -> None:
        with self._engine.isolation(len(chosen), is_here=is_here) as together:
            runs = [asyncio.ensure_future(self._run_one(claimed, together)) for claimed in chosen]
            try:
                await asyncio.wait(runs)
            finally:
                for each in runs:
                    each.cancel()
            for each, claimed in zip(runs, chosen, strict=True):
                _report(each, claimed)

    def _start(self, work: Awaitable[None], free: Callable[[], None]) -> None:
        task = asyncio.ensure_future(work)
        self._sets.add(task)

        def end(_: asyncio.Future[None]) -> None:
            self._sets.discard(task)
            free()
            self._buffer.arrived.set()

        task.add_done_callback(end)

    def _free_here(self) -> None:
        self._is_here_free = True

    def _free_apart(self, runs: int) -> None:
        self._free_processes += 1
        self._free_slots += runs


def _report(run: asyncio.Future[None], claimed: ClaimedRun) -> None:
    """Log a run without an end; the next lease comparison finds and puts it back."""
    error = None if run.cancelled() else run.exception()
    if error is not None:
        _log.error("run %d of %s has no recorded end", claimed.id, claimed.train, exc_info=error)
