"""Gandy's own maintenance on expired runs: kept by row, or in the partition of a day that is over."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta

from benchmarks.ceilings.deletion import Deletion
from benchmarks.protocol import serve
from gandy.app.process import loop_factory
from gandy.context import Context
from gandy.model.manifest import Declarations
from gandy.settings import DatabaseSettings, Settings
from gandy.store.drivers.opening import migrate, open_database
from gandy.upkeep.service import table_maintenance


class GandyByRow(Deletion):
    """One cycle of TableMaintenance, with its defaults."""

    def setup(self, url: str) -> None:
        """Migrate, as an application would."""
        migrate(url)

    def open(self, url: str) -> None:
        """Open the service's database beside the connection that fills it."""
        super().open(url)
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        settings = Settings(database=DatabaseSettings(url=url))
        self._database = open_database(settings.database)
        self._runner.run(self._database.open())
        declared = Declarations(owner="bench")
        context = Context(owner="bench", database=self._database, settings=settings, declarations=declared)
        self._service = table_maintenance(context)

    def fill(self, runs: int) -> None:
        """Fill, and let the record of the cycle have an id of its own."""
        super().fill(runs)
        self._connection.execute("SELECT setval('gandy.attempt_id', %s)", [2 * runs])

    def close(self) -> None:
        """Close it."""
        self._runner.run(self._database.close())
        self._runner.close()

    def delete(self) -> float:
        """Run the cycle; answers its longest batch in seconds."""
        result = self._runner.run(self._service.tick())
        return result.longest_batch.total_seconds() if result.longest_batch else 0.0

    def remaining(self) -> list[int]:
        """Runs and log rows that are left, but for the record of the cycle itself."""
        runs, logs = super().remaining()
        row = self._connection.execute(
            "SELECT count(*) FROM gandy.history WHERE name = 'TableMaintenanceTrain'"
        ).fetchone()
        return [runs - int(row[0] if row else 0), logs]


class GandyByDay(GandyByRow):
    """The same cycle, where every expired run lies in yesterday's partition."""

    def __init__(self) -> None:
        self._day = datetime.now(tz=UTC).date() - timedelta(days=1)
        self.bucket = self._day.isoformat()

    def fill(self, runs: int) -> None:
        """Bring back the day that the last round dropped."""
        self._connection.execute("SELECT gandy.add_history_day(%s)", [self._day])
        super().fill(runs)

    def delete(self) -> float:
        """Run the cycle; answers how long all of it took, since no statement of it can take longer."""
        begun = time.monotonic()
        super().delete()
        return time.monotonic() - begun


if __name__ == "__main__":
    serve({"row": GandyByRow, "day": GandyByDay}[sys.argv[1]]())
