"""The least that a durable queue can do on SQLite: Gandy's own tables, direct statements, batches."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.ceilings.gandy_schema import RUN_ROWS
from benchmarks.protocol import Contestant, serve
from benchmarks.statements import load_statements
from gandy.store.drivers.migrate import load_migrations

STATEMENTS = load_statements(__file__)
BATCH = 500


async def no_op() -> None:
    """The job."""


class SqliteLoop(Contestant):
    """One connection, claim and finish in one transaction each, row statements by executemany."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gandy-bench-")
        self._file = Path(self._folder.name) / "bench.db"
        self._runner = asyncio.Runner()

    def setup(self, url: str) -> None:  # noqa: ARG002 it has a file of its own
        """Gandy's tables as version 10 had them: a row for each run."""
        with closing(sqlite3.connect(self._file)) as connection:
            connection.execute("PRAGMA journal_mode = wal")
            for migration in load_migrations("sqlite"):
                if migration.version <= RUN_ROWS:
                    connection.executescript(migration.sql)

    def open(self, url: str) -> None:  # noqa: ARG002 it has a file of its own
        """One connection, as Gandy opens it."""
        self._connection = sqlite3.connect(self._file, isolation_level=None, timeout=30)
        self._connection.execute("PRAGMA synchronous = normal")
        self._connection.execute(STATEMENTS["group"])

    def reset(self) -> None:
        """Empty the tables."""
        for table in ("work_queue", "metadata"):
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 our own names
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def enqueue(self, jobs: int) -> None:
        """One transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        rows = [(f'{{"invoice": {n}, "customer": "c-1001"}}',) for n in range(jobs)]
        self._connection.executemany(STATEMENTS["enqueue"], rows)
        self._connection.execute("COMMIT")

    def ready(self) -> None:
        """Nothing to prepare."""

    def work(self) -> None:
        """Claim, run, finish, in batches, until the queue is empty."""
        while claimed := self._claim():
            self._runner.run(_run_all(len(claimed)))
            self._finish(claimed)

    def completed(self) -> int:
        """Completed runs in history."""
        with closing(sqlite3.connect(self._file)) as connection:
            return int(connection.execute(STATEMENTS["completed"]).fetchone()[0])

    def _claim(self) -> list[tuple[int, str]]:
        self._connection.execute("BEGIN IMMEDIATE")
        claimed: list[tuple[int, str]] = self._connection.execute(STATEMENTS["pick"], (BATCH,)).fetchall()
        ids = [(job_id,) for job_id, _ in claimed]
        self._connection.executemany(STATEMENTS["dispatch"], ids)
        self._connection.executemany(STATEMENTS["start"], ids)
        self._connection.execute("COMMIT")
        return claimed

    def _finish(self, claimed: list[tuple[int, str]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(STATEMENTS["finish"], [(job_id,) for job_id, _ in claimed])
        self._connection.execute("COMMIT")


async def _run_all(count: int) -> None:
    for _ in range(count):
        await no_op()


if __name__ == "__main__":
    serve(SqliteLoop())
