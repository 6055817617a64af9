-- name: claim
-- Rows are joined by "id BETWEEN x AND x": a probe of the primary key is then the only plan.
WITH claim AS MATERIALIZED (SELECT gandy.now() AS now, nextval('gandy.fence') AS fence),
picked AS MATERIALIZED (
    SELECT id FROM gandy.work_queue
    WHERE owner = 'bench' AND manifest_group_id = %(group)s AND status = 'queued' AND gate = 'open'
    ORDER BY rank DESC, id LIMIT %(batch)s FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE gandy.work_queue q SET status = 'dispatched', dispatched_at = claim.now, metadata_id = q.id,
        train_state = 'in_progress', start_time = claim.now, worker_id = %(worker)s, fence = claim.fence,
        deadline_at = claim.now + make_interval(secs => coalesce(q.timeout_seconds, 1200))
    FROM picked, claim WHERE q.id BETWEEN picked.id AND picked.id
    RETURNING q.id, q.train_name, q.input, q.manifest_id, claim.fence
), active AS (
    UPDATE gandy.manifest m SET active_run_id = t.id, last_run_id = t.id
    FROM taken t WHERE m.id BETWEEN t.manifest_id AND t.manifest_id
)
SELECT id, train_name, input::text, fence FROM taken

-- name: finish
WITH done AS MATERIALIZED (
    SELECT d.*, gandy.now() AS now
    FROM unnest(%(ids)b::bigint[], %(fences)b::bigint[], %(outputs)b::text[], %(junctions)b::text[]) AS d (id, fence, output, junctions)
), ended AS (
    DELETE FROM gandy.work_queue r USING done d
    WHERE r.id BETWEEN d.id AND d.id AND r.fence = d.fence AND r.worker_id = %(worker)s
      AND coalesce(r.train_state = 'in_progress', false)
    RETURNING r.id, r.owner, r.external_id, r.train_name, r.manifest_id, r.manifest_group_id, r.parent_id, r.origin, r.priority,
              r.due_at, r.attempt, r.input, r.input_type_name, r.dispatched_at, r.start_time, r.worker_id, r.fence, d.now,
              d.output AS result, d.junctions AS timings
), credited AS (
    UPDATE gandy.manifest m SET success_count = m.success_count + 1, failure_count = 0, active_run_id = NULL,
           last_successful_run_id = e.id, last_successful_run = e.now
    FROM ended e WHERE m.id BETWEEN e.manifest_id AND e.manifest_id
)
INSERT INTO gandy.history (id, bucket, owner, external_id, name, train_state, manifest_id, manifest_group_id, parent_id, origin, priority,
                           due_at, attempt, input, input_type_name, output, junctions, created_at, start_time, end_time, keep_until,
                           worker_id, fence)
SELECT id, (now + interval '7 days')::date, owner, external_id, train_name, 'completed', manifest_id, manifest_group_id, parent_id, origin,
       priority, due_at, attempt, input, input_type_name, result::json, timings::json, dispatched_at, start_time, now,
       now + interval '7 days', worker_id, fence
FROM ended

-- name: completed
SELECT count(*) FROM gandy.history WHERE train_state = 'completed'

-- name: reset
TRUNCATE gandy.work_queue, gandy.history
