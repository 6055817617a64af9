"""Watching over running runs: who is asked to stop, who takes too long, and what they report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from math import inf
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from gandy.errors import DatabaseFaultError, GandyError
from gandy.model.run import CancelledBy
from gandy.store.reports import write_reports
from gandy.store.runs import ProgressRow, read_cancellations, report_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gandy.admin.job_runner.reports import Pending, RunReports
    from gandy.admin.job_runner.runner import JobRunner
    from gandy.services.worker.finisher import Finisher
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation
    from gandy.train.run import Run

_log = logging.getLogger("gandy.worker")

LOOK_EVERY: Final = 0.5
IGNORED_AFTER: Final = 10.0
NANOSECONDS: Final = 1_000_000_000


class Attendant:
    """Looks after the runs of one worker twice a second, and at once when told."""

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        *,
        reports: RunReports,
        finisher: Finisher,
        held: Callable[[], list[int]],
    ) -> None:
        """Take `held`, which names the runs that are claimed and not begun: they too may be asked to stop."""
        self._database = database
        self._runner = runner
        self._reports = reports
        self._finisher = finisher
        self._asked: WeakKeyDictionary[Run, float] = WeakKeyDictionary()
        self._held = held
        self._asked_early: dict[int, CancelledBy] = {}
        self._look = asyncio.Event()

    def asked_early(self, run_id: int) -> CancelledBy | None:
        """Say who asked a run to stop before it began, if anybody did."""
        return self._asked_early.pop(run_id, None) if self._asked_early else None

    def look(self, run_id: str) -> None:
        """Look at once: somebody asked this run to stop."""
        if run_id.isdecimal() and (int(run_id) in self._runner.running or int(run_id) in self._held()):
            self._look.set()

    async def run(self) -> None:
        """Watch for ever; a database that is away is asked again."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), LOOK_EVERY)
            self._look.clear()
            if self._runner.running or self._held():
                self._stop_overdue()
                try:
                    await self._exchange()
                except GandyError as error:
                    _log.warning("running runs were not looked after: %s", error)
                    await asyncio.sleep(
                        LOOK_EVERY
                    )  # it was woken for a run: the database is not asked at once

    def cancel_all(self, by: CancelledBy, reason: str) -> None:
        """Ask every run to stop."""
        for run_id in list(self._runner.running):
            self.cancel(run_id, by, reason)

    def _stop_overdue(self) -> None:
        """Stop what has taken too long; the time of a run that waits for its process does not count."""
        now = time.perf_counter_ns()
        for run_id, run in list(self._runner.running.items()):
            if not run.is_waiting and now - run.counts_from_ns > run.timeout_seconds * NANOSECONDS:
                self.cancel(run_id, CancelledBy.TIMEOUT, f"it took longer than {run.timeout_seconds:g} s")

    async def _exchange(self) -> None:
        """One transaction: read who shall stop, write what the runs report."""
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
        except Exception as error:  # noqa: BLE001 - one report is refused: it is found, the others are written
            _log.warning("reports of runs are written one by one: %s", error)
        if pending is not None:
            await write_reports(self._database, pending.lines, pending.progress)
        return await self._database.read(read_cancellations(ids))

    def _ignoring(self) -> list[ProgressRow]:
        """Mark the runs that were asked to stop some time ago and go on all the same."""
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
