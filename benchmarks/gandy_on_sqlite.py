"""Gandy on its embedded default: a file of SQLite."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.gandy_contestant import GandyContestant
from benchmarks.protocol import serve

TABLES = ("work_queue", "history", "log", "unique_key", "dead_letter", "worker")


class GandyOnSqlite(GandyContestant):
    """The same application; the database that the harness offers is left alone."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="gandy-bench-")
        self._file = Path(self._folder.name) / "bench.db"

    def setup(self, url: str) -> None:
        """Nothing: an embedded database migrates itself."""

    def open(self, url: str) -> None:  # noqa: ARG002 it has a file of its own
        """Open the application on the file."""
        super().open(f"sqlite:///{self._file}")

    def reset(self) -> None:
        """Empty the tables."""
        with closing(sqlite3.connect(self._file, isolation_level=None, timeout=30)) as connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 our own names
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def completed(self) -> int:
        """Completed runs in history."""
        with closing(sqlite3.connect(self._file)) as connection:
            query = "SELECT count(*) FROM history WHERE train_state = 'completed' AND name = 'no_op'"
            return int(connection.execute(query).fetchone()[0])


if __name__ == "__main__":
    serve(GandyOnSqlite())
