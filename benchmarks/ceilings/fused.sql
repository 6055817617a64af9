-- name: enqueue
INSERT INTO gandy.work_queue (owner, train_name, input, input_type_name, manifest_group_id, origin, due_at, scheduled_at, created_at)
SELECT 'bench', 'no_op', i.input::json, 'Invoice', %(group)s, 'ad_hoc', now, now, now
FROM unnest(%(inputs)b::text[]) AS i (input), gandy.now() AS now

-- name: copy
COPY gandy.work_queue (owner, train_name, input, input_type_name, manifest_group_id, origin, due_at, scheduled_at)
FROM STDIN

-- name: claim
-- Rows are joined by "id BETWEEN x AND x": a probe of the primary key is then the only plan.
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

-- name: finish
WITH done AS MATERIALIZED (
    SELECT d.*, gandy.now() AS now
    FROM unnest(%(ids)b::bigint[], %(fences)b::bigint[], %(outputs)b::text[], %(junctions)b::text[]) AS d (id, fence, output, junctions)
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

-- name: completed
SELECT count(*) FROM gandy.metadata WHERE train_state = 'completed'

-- name: reset
TRUNCATE gandy.work_queue, gandy.metadata

-- name: enqueue_and_notify
WITH queued AS (
    INSERT INTO gandy.work_queue (owner, train_name, input, input_type_name, manifest_group_id, origin, due_at, scheduled_at, created_at)
    SELECT 'bench', 'no_op', i.input::json, 'Invoice', %(group)s, 'ad_hoc', now, now, now
    FROM unnest(%(inputs)b::text[]) AS i (input), gandy.now() AS now
    RETURNING 1)
SELECT pg_notify('gandy', 'work') FROM queued
