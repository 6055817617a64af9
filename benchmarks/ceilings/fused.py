"""t3m: queue row, run row, manifest on Gandy's own tables; dispatch and claim in one statement, finish in another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.ceilings.gandy_schema import connect, create_schema, default_group
from benchmarks.ceilings.pipeline import drain
from benchmarks.protocol import Contestant, serve

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

ENQUEUE = """
INSERT INTO gandy.work_queue (owner, train_name, input, input_type_name, manifest_group_id, origin, due_at, scheduled_at, created_at)
SELECT 'bench', 'no_op', i.input::json, 'Invoice', %(group)s, 'ad_hoc', now, now, now
FROM unnest(%(inputs)s::text[]) AS i (input), gandy.now() AS now
"""
COPY = """
COPY gandy.work_queue (owner, train_name, input, input_type_name, manifest_group_id, origin, due_at, scheduled_at)
FROM STDIN
"""
# Rows are joined by "id BETWEEN x AND x": a probe of the primary key is then the only plan.
CLAIM = """
WITH claim AS MATERIALIZED (SELECT gandy.now() AS now, nextval('gandy.fence') AS fence),
picked AS MATERIALIZED (
    SELECT id FROM gandy.work_queue
    WHERE owner = 'bench' AND manifest_group_id = %(group)s AND status = 'queued' AND gate = 'open'
    ORDER BY rank DESC, id LIMIT %(batch)s FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE gandy.work_queue q SET status = 'dispatched', dispatched_at = claim.now, metadata_id = q.id
    FROM picked, claim WHERE q.id BETWEEN picked.id AND picked.id
    RETURNING q.id, q.owner, q.external_id, q.train_name, q.manifest_id, q.manifest_group_id, q.origin, q.rank, q.due_at,
              q.attempt, q.input, q.timeout_seconds, claim.now, claim.fence
), active AS (
    UPDATE gandy.manifest m SET active_run_id = t.id, last_run_id = t.id
    FROM taken t WHERE m.id BETWEEN t.manifest_id AND t.manifest_id
)
INSERT INTO gandy.metadata_live (id, bucket, owner, external_id, name, train_state, manifest_id, manifest_group_id, origin, rank,
                                 due_at, attempt, input, created_at, start_time, deadline_at, worker_id, fence)
SELECT id, 'infinity', owner, external_id, train_name, 'in_progress', manifest_id, manifest_group_id, origin, rank,
       due_at, attempt, input, now, now, now + make_interval(secs => coalesce(timeout_seconds, 1200)), %(worker)s, fence
FROM taken RETURNING id, name, input::text, fence
"""
FINISH = """
WITH done AS MATERIALIZED (
    SELECT d.*, gandy.now() AS now
    FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(outputs)s::text[], %(junctions)s::text[]) AS d (id, fence, output, junctions)
), ended AS (
    DELETE FROM gandy.metadata_live r USING done d
    WHERE r.id BETWEEN d.id AND d.id AND r.fence = d.fence AND r.worker_id = %(worker)s
      AND coalesce(r.train_state = 'in_progress', false)
    RETURNING r.id, r.owner, r.external_id, r.name, r.manifest_id, r.manifest_group_id, r.parent_id, r.origin, r.rank, r.due_at,
              r.attempt, r.input, r.created_at, r.start_time, r.deadline_at, r.worker_id, r.fence, d.now,
              d.output AS result, d.junctions AS timings
), credited AS (
    UPDATE gandy.manifest m SET success_count = m.success_count + 1, failure_count = 0, active_run_id = NULL,
           last_successful_run_id = e.id, last_successful_run = e.now
    FROM ended e WHERE m.id BETWEEN e.manifest_id AND e.manifest_id
)
INSERT INTO gandy.metadata (id, bucket, owner, external_id, name, train_state, manifest_id, manifest_group_id, parent_id, origin, rank,
                            due_at, attempt, input, output, junctions, created_at, start_time, end_time, keep_until,
                            deadline_at, worker_id, fence)
SELECT id, (now + interval '7 days')::date, owner, external_id, name, 'completed', manifest_id, manifest_group_id, parent_id, origin, rank,
       due_at, attempt, input, result::json, timings::json, created_at, start_time, now, now + interval '7 days',
       deadline_at, worker_id, fence
FROM ended
"""
ENQUEUE_AND_NOTIFY = f"WITH queued AS ({ENQUEUE} RETURNING 1) SELECT pg_notify('gandy', 'work') FROM queued"
COMPLETED = "SELECT count(*) FROM gandy.metadata WHERE train_state = 'completed'"
RESET = "TRUNCATE gandy.work_queue, gandy.metadata"


class Fused(Contestant):
    """The ceiling that has Gandy's rows, states and guards, and nothing else."""

    def setup(self, url: str) -> None:
        """Make Gandy's tables."""
        create_schema(url)

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
        self._claimer.execute(RESET)

    def enqueue(self, jobs: int) -> None:
        """Insert by unnest, in chunks."""
        inputs = [INPUT % number for number in range(jobs)]
        for start in range(0, jobs, ENQUEUE_CHUNK):
            self._claimer.execute(ENQUEUE, {"inputs": inputs[start : start + ENQUEUE_CHUNK], "group": self._group})

    def ready(self) -> None:
        """Get ready to work: the statistics that autovacuum would have given the planner."""
        self._claimer.execute("ANALYZE gandy.work_queue")

    def work(self) -> int:
        """Run what is queued."""
        return drain(self._claim, self._finish)

    def completed(self) -> int:
        """Runs on record as completed."""
        row = self._claimer.execute(COMPLETED).fetchone()
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
        return (connection or self._claimer).execute(CLAIM, parameters).fetchall()

    def _finish(self, batch: Sequence[Claimed]) -> int:
        parameters = {
            "ids": [job[0] for job in batch],
            "fences": [job[3] for job in batch],
            "outputs": [OUTPUT] * len(batch),
            "junctions": [JUNCTIONS] * len(batch),
            "worker": WORKER,
        }
        return self._finisher.execute(FINISH, parameters).rowcount


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
