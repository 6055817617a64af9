-- name: start_run
-- A run without a queue entry, started at once by its caller.
UPDATE sequence SET value = value + 1 WHERE name = 'fence';
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'work_queue';
INSERT INTO metadata (
    id, owner, name, train_state, parent_id, due_at, input, created_at, start_time, deadline_at, worker_id, fence)
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'work_queue'), :owner, :name, 'in_progress',
       -- the calling run, unless it belongs to another application
       (SELECT r.id FROM metadata r WHERE r.id = :parent_id AND r.owner = :owner),
       gandy_now(), :input, gandy_now(), gandy_now(), gandy_later(nullif(min(:timeout_seconds, 4e9), 4e9)), :worker_id,
       (SELECT value FROM sequence WHERE name = 'fence')
RETURNING id, fence, start_time AS started_at;

-- name: end_runs
-- Differs from PostgreSQL: one table, so the run is updated in place, if its claim still owns it (fence).
-- A run that an operator cancelled is recorded as cancelled even if it failed.
UPDATE metadata SET
    train_state = CASE WHEN :train_state = 'failed' AND coalesce(cancellation_reason, '') = 'operator' THEN 'cancelled'
                       ELSE :train_state END,
    output = :output, junctions = :junctions, failure_junction = :failure_junction,
    failure_exception = :failure_exception, failure_reason = :failure_reason, stack_trace = :stack_trace,
    cancellation_reason = coalesce(cancellation_reason, :cancellation_reason), end_time = gandy_now(),
    keep_until = gandy_later(:keep_for_seconds), progress_done = :progress_done, progress_total = :progress_total,
    currently_running_junction = NULL
WHERE id = :id AND train_state IN ('pending', 'in_progress') AND worker_id IS :worker_id AND fence IS :fence
RETURNING id, NULL AS bucket, train_state <> :train_state AS is_overruled,
    (SELECT g.max_active_jobs FROM manifest_group g WHERE g.id = metadata.manifest_group_id) IS NOT NULL AS is_freed;
