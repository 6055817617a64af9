"""The loop that writes what runs report, and hears whether they shall end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from gandy.store.reports import write_reports
from gandy.store.runs import read_cancellations

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.admin.job_runner.reports import RunReports
    from gandy.store.drivers.database import Database

_log = logging.getLogger("gandy.runs")


class RunReporter:
    """Serves the runs of one process that no worker serves."""

    def __init__(self, database: Database, reports: RunReports, *, every: timedelta) -> None:
        self._database = database
        self._reports = reports
        self._every = every.total_seconds()
        self.dropped = 0  #: reports that the database refused

    async def run(self) -> None:
        """Write and listen until cancelled; a database that is away costs lines, never a run."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.run_once()
            except Exception as error:  # noqa: BLE001 the loop goes on, whatever one exchange meets
                _log.warning("reports of running trains could not be written: %s", error)

    async def run_once(self) -> None:
        """Write what was gathered, then pass on requests to cancel."""
        pending = self._reports.take()
        if pending is not None:
            self.dropped += await write_reports(self._database, pending.lines, pending.progress)
        ids = self._reports.ids
        cancelled = await self._database.read(read_cancellations(ids)) if ids else {}
        for run_id, by in cancelled.items():
            run = self._reports.find(run_id)
            if run is not None:
                run.request_cancel(by, f"cancelled by {by}")
