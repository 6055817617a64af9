"""t3m: direct SQL on the tables of version 10, with a row for each live run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.ceilings.gandy_schema import RUN_ROWS, connect, create_schema, default_group
from benchmarks.ceilings.pipeline import drain
from benchmarks.protocol import Contestant, serve
from benchmarks.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

BATCH = 500
ENQUEUE_CHUNK = 5_000
WORKER = "bench-worker"
INPUT = '{"invoice": %d, "customer": "c-1001"}'
OUTPUT = '{"ok": true}'
JUNCTIONS = '[{"name": "no_op", "seconds": 0.000001}]'
LATENCY_PAUSE = 0.02
Claimed = tuple[int, str, str, int]

SQL = load_statements(__file__)
ENQUEUE = SQL["enqueue"]
COPY = SQL["copy"]
ENQUEUE_AND_NOTIFY = SQL["enqueue_and_notify"]


class Fused(Contestant):
    """The ceiling that has Gandy's rows, states and guards, and nothing else."""

    sql = SQL

    def setup(self, url: str) -> None:
        """Make the tables."""
        create_schema(url, version=RUN_ROWS)

    def open(self, url: str) -> None:
        """One connection to claim and enqueue, one to finish."""
        self._claimer: psycopg.Connection = connect(url)
        self._finisher: psycopg.Connection = connect(url)
        self._group = default_group(self._claimer)
        self._batch = BATCH

    def tune(self, batch: int) -> None:
        """Set the batch size, for sweeps."""
        self._batch = batch

    def reset(self) -> None:
        """Empty the queue and the history."""
        self._claimer.execute(self.sql["reset"])

    def enqueue(self, jobs: int) -> None:
        """Insert by unnest, in chunks."""
        inputs = [INPUT % number for number in range(jobs)]
        for start in range(0, jobs, ENQUEUE_CHUNK):
            self._claimer.execute(
                ENQUEUE, {"inputs": inputs[start : start + ENQUEUE_CHUNK], "group": self._group}
            )

    def ready(self) -> None:
        """Get ready to work: the statistics that autovacuum would have given the planner."""
        self._claimer.execute("ANALYZE gandy.work_queue")

    def work(self) -> int:
        """Run what is queued."""
        return drain(self._claim, self._finish)

    def completed(self) -> int:
        """Runs on record as completed."""
        row = self._claimer.execute(self.sql["completed"]).fetchone()
        return int(row[0]) if row else 0

    def latency(self, samples: int) -> list[float]:
        """Seconds from asking for one job on an idle system to holding its claim: LISTEN, then claim."""
        self._finisher.execute("LISTEN gandy")
        return [self._one_pickup() for _ in range(samples)]

    def _one_pickup(self) -> float:
        time.sleep(LATENCY_PAUSE)
        started = time.perf_counter()
        self._claimer.execute(ENQUEUE_AND_NOTIFY, {"inputs": [INPUT % 1], "group": self._group})
        for _ in self._finisher.notifies(timeout=5, stop_after=1):
            pass
        claimed = self._claim(self._finisher)
        taken = time.perf_counter() - started
        self._finish(claimed)
        return taken

    def _claim(self, connection: psycopg.Connection | None = None) -> Sequence[Claimed]:
        parameters = {"group": self._group, "batch": self._batch, "worker": WORKER}
        return (connection or self._claimer).execute(self.sql["claim"], parameters).fetchall()

    def _finish(self, batch: Sequence[Claimed]) -> int:
        parameters = {
            "ids": [job[0] for job in batch],
            "fences": [job[3] for job in batch],
            "outputs": [OUTPUT] * len(batch),
            "junctions": [JUNCTIONS] * len(batch),
            "worker": WORKER,
        }
        return self._finisher.execute(self.sql["finish"], parameters).rowcount


class FusedByCopy(Fused):
    """The same rows, enqueued by COPY."""

    def enqueue(self, jobs: int) -> None:
        """Stream the rows in."""
        now = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime())
        with self._claimer.cursor() as cursor, cursor.copy(COPY) as copy:
            for number in range(jobs):
                copy.write_row(("bench", "no_op", INPUT % number, "Invoice", self._group, "ad_hoc", now, now))


if __name__ == "__main__":
    serve(Fused())
