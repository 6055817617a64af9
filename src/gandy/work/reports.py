"""Log lines, progress and activations of running runs, written in batches."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final

from gandy.errors import ActivationError
from gandy.store.reports import LogRow, write_live_logs, write_reports
from gandy.store.runs import ProgressRow, read_cancellations, report_progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from gandy.model.run import Activation
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation
    from gandy.train.run import LogLine, Progress, Run


_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "critical"})


@dataclass(slots=True)
class RunReport:
    """The unwritten reports of one run; a run that reports nothing has none."""

    run: Run
    lines: list[LogRow] = field(default_factory=list)
    progress: Progress | None = None
    activations: list[Activation] = field(default_factory=list)
    has_written_lines: bool = False
    written: tuple[Progress | None, str | None] = (None, None)


class RunReports:
    """A sink for many runs; safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[int, tuple[Run, datetime]] = {}  # with the start by the database's clock
        self._reports: dict[int, RunReport] = {}

    @property
    def ids(self) -> list[int]:
        """The ids of the running runs."""
        with self._lock:
            return list(self._open)

    def open(self, run: Run, started_at: datetime) -> None:
        """Accept reports of a run; the times of its lines are relative to its start."""
        self._open[run.id] = (run, started_at)

    def close(self, run: Run) -> RunReport | None:
        """Remove and return the report of a run that has ended, or None if it never reported anything."""
        with self._lock:
            del self._open[run.id]
            return self._reports.pop(run.id, None)

    def find(self, run_id: int) -> Run | None:
        """Return a running run, or None."""
        with self._lock:
            found = self._open.get(run_id)
        return None if found is None else found[0]

    def write_log(self, run: Run, line: LogLine) -> None:
        """Collect a line; a line after the run's end is dropped."""
        with self._lock:
            report = self._report_of(run)
            if report is not None:
                at = self._open[run.id][1] + timedelta(microseconds=line.offset_ns // 1_000)
                row = LogRow(run.id, run.fence, at, _level(line.level), line.logger, _storable(line.message))
                report.lines.append(row)

    def report_progress(self, run: Run, progress: Progress) -> None:
        """Remember the latest progress; progress after the run's end is dropped."""
        with self._lock:
            report = self._report_of(run)
            if report is not None:
                report.progress = progress

    def activate(self, run: Run, activation: Activation) -> None:
        """Remember a dormant dependent until the run completes; after its end it would be lost."""
        with self._lock:
            report = self._report_of(run)
            if report is None:
                raise ActivationError(f"activate({activation.external_id!r}): the run has ended")
            report.activations.append(activation)

    def _report_of(self, run: Run) -> RunReport | None:
        """Return the report of a run, created at first use; None if the run has ended."""
        if run.id not in self._open:
            return None
        if run.id not in self._reports:
            self._reports[run.id] = RunReport(run)
        return self._reports[run.id]

    def take(self) -> Pending | None:
        """Remove and return the collected reports of running runs, if any."""
        with self._lock:
            lines = [line for report in self._reports.values() for line in report.lines]
            progress = [row for report in self._reports.values() if (row := _changed(report)) is not None]
            for report in self._reports.values():
                report.has_written_lines = report.has_written_lines or bool(report.lines)
                report.lines = []
        return Pending(lines, progress) if lines or progress else None


@dataclass(frozen=True, slots=True)
class Pending:
    """Reports that are to be written."""

    lines: Sequence[LogRow]
    progress: Sequence[ProgressRow]

    def write(self) -> Operation[None]:
        """Write them all."""
        yield from report_progress(self.progress)
        yield from write_live_logs(self.lines)


def _changed(report: RunReport) -> ProgressRow | None:
    """Return the progress of a run, unless it is already written."""
    now = (report.progress, report.run.junction)
    if now == report.written or report.progress is None:
        return None
    report.written = now
    done, total = report.progress.done, report.progress.total
    return ProgressRow(report.run.id, report.run.fence, done, total, report.run.junction)


def _level(name: str) -> str:
    """Map a log level that the table does not have to "info"."""
    word = name.lower()
    return word if word in _LEVELS else "info"


def _storable(message: str) -> str:
    """Remove characters that no text column can store."""
    return message.replace("\x00", "").encode(errors="replace").decode()


_log = logging.getLogger("gandy.runs")


class RunReporter:
    """Writes reports and reads cancellations for the runs of a process without a worker."""

    def __init__(self, database: Database, reports: RunReports, *, every: timedelta) -> None:
        self._database = database
        self._reports = reports
        self._every = every.total_seconds()
        self.dropped = 0  #: reports that the database refused

    async def run(self) -> None:
        """Exchange until cancelled; an outage of the database loses log lines, never a run."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.run_once()
            except Exception as error:  # noqa: BLE001 - the loop continues after any failed exchange
                _log.warning("reports of running trains could not be written: %s", error)

    async def run_once(self) -> None:
        """Write the collected reports, then forward requests to cancel."""
        pending = self._reports.take()
        if pending is not None:
            self.dropped += await write_reports(self._database, pending.lines, pending.progress)
        ids = self._reports.ids
        cancelled = await self._database.read(read_cancellations(ids)) if ids else {}
        for run_id, by in cancelled.items():
            run = self._reports.find(run_id)
            if run is not None:
                run.request_cancel(by, f"cancelled by {by}")
