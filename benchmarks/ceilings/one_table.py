"""t1: one table; claim and finish are updates of one row. The least that a durable queue can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from benchmarks.ceilings.gandy_schema import connect
from benchmarks.ceilings.pipeline import drain
from benchmarks.protocol import Contestant, serve
from benchmarks.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH = 500
ENQUEUE_CHUNK = 5_000

SQL = load_statements(__file__)
SCHEMA = SQL["schema"]
ENQUEUE = SQL["enqueue"]
CLAIM = SQL["claim"]
FINISH = SQL["finish"]
Claimed = tuple[int, str, str]


class OneTable(Contestant):
    """A bare queue."""

    def setup(self, url: str) -> None:
        """Make the table."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SCHEMA)

    def open(self, url: str) -> None:
        """One connection to claim and enqueue, one to finish."""
        self._claimer = connect(url)
        self._finisher = connect(url)

    def reset(self) -> None:
        """Empty the table."""
        self._claimer.execute("TRUNCATE job")

    def enqueue(self, jobs: int) -> None:
        """Insert by unnest, in chunks."""
        inputs = [f'{{"invoice": {number}, "customer": "c-1001"}}' for number in range(jobs)]
        for start in range(0, jobs, ENQUEUE_CHUNK):
            self._claimer.execute(ENQUEUE, [inputs[start : start + ENQUEUE_CHUNK]])

    def ready(self) -> None:
        """Get ready to work: the statistics that autovacuum would have given the planner."""
        self._claimer.execute("ANALYZE job")

    def work(self) -> int:
        """Run what is queued."""
        return drain(self._claim, self._finish)

    def completed(self) -> int:
        """Jobs on record as completed."""
        row = self._claimer.execute("SELECT count(*) FROM job WHERE state = 'completed'").fetchone()
        return int(row[0]) if row else 0

    def _claim(self) -> Sequence[Claimed]:
        return self._claimer.execute(CLAIM, [BATCH]).fetchall()

    def _finish(self, batch: Sequence[Claimed]) -> int:
        outputs = ['{"ok": true}'] * len(batch)
        return self._finisher.execute(FINISH, [[job[0] for job in batch], outputs]).rowcount


if __name__ == "__main__":
    serve(OneTable())
