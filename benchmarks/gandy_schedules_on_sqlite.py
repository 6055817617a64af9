"""Gandy's schedules on its embedded default: a file of SQLite."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.coming_due import WARM_TICKS
from benchmarks.gandy_schedules import GandySchedules
from benchmarks.protocol import serve
from benchmarks.statements import load_statements
from gandy.settings import DatabaseSettings
from gandy.store.drivers.opening import open_database
from gandy.store.drivers.sqlite_values import to_text

SQL = load_statements(__file__)


class GandySchedulesOnSqlite(GandySchedules):
    """The same cycles; the database that the harness offers is left alone."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="gandy-bench-")
        self._file = Path(self._folder.name) / "bench.db"

    def setup(self, url: str) -> None:
        """Nothing: an embedded database migrates itself."""

    def open(self, url: str) -> None:  # noqa: ARG002 it has a file of its own
        """Open Gandy's database on the file."""
        self._database = open_database(DatabaseSettings(url=f"sqlite:///{self._file}"))
        self._run(self._database.open())

    def reset(self) -> None:
        """No manifest, no entry."""
        self._execute("empty_letters", "empty_queue", "empty_manifests")

    def fill(self, manifests: int, runs: int) -> None:  # noqa: ARG002 only manifests are compared here
        """Have this number of idle manifests, once."""
        self.reset()
        self._execute("fill_group", "fill", manifests=manifests)
        for _ in range(WARM_TICKS):
            self.tick()

    def make_some_due(self, manifests: int) -> None:
        """Let a few come due among many."""
        self._execute("settle", "make_some_due", manifests=manifests)

    def _execute(self, *names: str, **values: int) -> None:
        """Run statements past Gandy, and leave nothing of them in the journal."""
        now = datetime.now(UTC)
        given = {"now": to_text(now), "tomorrow": to_text(now + timedelta(days=1)), **values}
        with closing(sqlite3.connect(self._file, isolation_level=None, timeout=30)) as connection:
            for name in names:
                connection.execute(SQL[name], given)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


if __name__ == "__main__":
    serve(GandySchedulesOnSqlite())
