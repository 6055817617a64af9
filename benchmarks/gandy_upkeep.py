"""Gandy's worker while expired runs are being removed, or not; and for a long time at full speed."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.ceilings import deletion
from benchmarks.gandy_contestant import GandyContestant, Invoice
from benchmarks.protocol import serve
from benchmarks.soak import Soak
from benchmarks.statements import load_statements
from gandy.context import Context
from gandy.model.manifest import Declarations
from gandy.settings import DatabaseSettings, Settings
from gandy.store.drivers.opening import open_database
from gandy.upkeep.service import table_maintenance

if TYPE_CHECKING:
    from collections.abc import Coroutine

EXPIRED_PER_JOB = 10
FIRST_EXPIRED = 1_000_000_000_000
PACE_EVERY = 0.01
SQL = load_statements(deletion.__file__)


class GandyWhileCleaning(GandyContestant):
    """The worker, with or without TableMaintenance at work in the same process."""

    def __init__(self, *, is_cleaning: bool) -> None:
        super().__init__()
        self._is_cleaning = is_cleaning
        self._taken: list[float] = []

    def fill(self, jobs: int) -> None:
        """Store expired runs with three lines each, as many for both contestants."""
        last = FIRST_EXPIRED + jobs * EXPIRED_PER_JOB - 1
        span = {"first": FIRST_EXPIRED, "last": last, "bucket": deletion.ROWWISE}
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(SQL["runs"], {**span, "age": deletion.EXPIRED_AGE})
            connection.execute(SQL["logs"], {**span, "per_run": deletion.LOGS_PER_RUN})
            connection.execute("ANALYZE gandy.history_rowwise")
            connection.execute("ANALYZE gandy.log_rowwise")

    def work(self) -> None:
        """Work until nothing is left."""
        self._run(self._beside(self._app.work(asyncio.Event(), until_idle=True)))

    def paced(self, jobs: int, per_second: float) -> list[float]:
        """Enqueue at a steady rate; answers the seconds from each call to the start of its job."""
        self._taken = []
        self._run(self._beside(self._pace(jobs, per_second)))
        return self._taken

    def soak(self, seconds: float, retention: float) -> dict[str, float]:
        """Work at full speed for so long with so short a retention."""
        soak = Soak(Path(self._url).name, self._url, timedelta(seconds=retention))
        answer: dict[str, float] = self._run(soak.run(seconds))
        return answer

    async def _beside(self, working: Coroutine[Any, Any, Any]) -> None:
        """Work, and clean up meanwhile if so asked."""
        cleaning = asyncio.create_task(self._clean()) if self._is_cleaning else None
        await working
        if cleaning is not None:
            cleaning.cancel()
            await asyncio.gather(cleaning, return_exceptions=True)

    async def _clean(self) -> None:
        settings = Settings(database=DatabaseSettings(url=self._url))
        database = open_database(settings.database)
        await database.open()
        try:
            declared = Declarations(owner="bench")
            context = Context(owner="bench", database=database, settings=settings, declarations=declared)
            await table_maintenance(context).tick()
        finally:
            await database.close()

    async def _pace(self, jobs: int, per_second: float) -> None:
        self._started = asyncio.Queue()
        stop = asyncio.Event()
        working = asyncio.create_task(self._app.work(stop))
        begun, sent = time.perf_counter(), 0
        asked: list[float] = []
        while sent < jobs:
            due = min(jobs, int((time.perf_counter() - begun) * per_second) + 1)
            if due > sent:
                asked += [time.perf_counter()] * (due - sent)
                inputs = [Invoice(invoice=number, customer="c-1001") for number in range(sent, due)]
                await self._app.enqueue_many(self._no_op, inputs)
                sent = due
            await asyncio.sleep(PACE_EVERY)
        started = sorted([await asyncio.wait_for(self._started.get(), timeout=60) for _ in range(jobs)])
        # Jobs of one group start in the order in which they were asked for.
        self._taken = [start - ask for start, ask in zip(started, asked, strict=True)]
        stop.set()
        await working
        self._started = None


if __name__ == "__main__":
    serve(GandyWhileCleaning(is_cleaning=sys.argv[1] == "cleaning"))
