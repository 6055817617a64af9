"""t1: one table, claim and finish are updates of one row. The lower bound of any queue that records completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from benchmarks.ceilings.gandy_schema import connect
from benchmarks.ceilings.pipeline import drain
from benchmarks.protocol import Contestant, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH = 500
ENQUEUE_CHUNK = 5_000

SCHEMA = """
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, input json, output json,
    state text NOT NULL DEFAULT 'queued', priority smallint NOT NULL DEFAULT 0, worker text,
    created_at timestamptz NOT NULL DEFAULT now(), started_at timestamptz, ended_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX job_queued ON job (priority DESC, id) WHERE state = 'queued';
"""
ENQUEUE = "INSERT INTO job (name, input) SELECT 'no_op', i::json FROM unnest(%s::text[]) AS i"
CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT id FROM job WHERE state = 'queued' ORDER BY priority DESC, id LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE job SET state = 'running', started_at = now(), worker = 'w' FROM picked WHERE job.id BETWEEN picked.id AND picked.id
RETURNING job.id, name, input::text
"""
FINISH = """
UPDATE job SET state = 'completed', ended_at = now(), output = d.output::json
FROM unnest(%s::bigint[], %s::text[]) AS d (id, output)
WHERE job.id BETWEEN d.id AND d.id AND coalesce(state = 'running', false)
"""
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
