"""The same expired runs and log rows, removed by detaching and dropping the partitions of their day."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from benchmarks.ceilings.deletion import Deletion
from benchmarks.protocol import serve


class PartitionDrop(Deletion):
    """Every row of a day dies with it."""

    def __init__(self) -> None:
        self._day = datetime.now(tz=UTC).date()
        self.bucket = self._day.isoformat()

    def fill(self, runs: int) -> None:
        """Bring back the day that the last round dropped."""
        self._connection.execute("SELECT gandy.add_history_day(%s)", [self._day])
        super().fill(runs)

    def delete(self) -> float:
        """Detach without blocking anyone, then drop; answers the longest statement in seconds."""
        longest = 0.0
        for parent in ("log", "history"):
            leaf = f"gandy.{parent}_{self._day:%Y%m%d}"
            for command in (
                f"ALTER TABLE gandy.{parent} DETACH PARTITION {leaf} CONCURRENTLY",
                f"DROP TABLE {leaf}",
            ):
                started = time.monotonic()
                self._connection.execute(command.encode(), prepare=False)
                longest = max(longest, time.monotonic() - started)
        return longest


if __name__ == "__main__":
    serve(PartitionDrop())
