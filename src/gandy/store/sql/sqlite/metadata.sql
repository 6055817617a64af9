-- name: start_run
-- A run that its caller starts at once: its entry was never queued.
UPDATE sequence SET value = value + 1 WHERE name = 'fence';
INSERT INTO work_queue (
    owner, train_name, status, origin, parent_id, due_at, scheduled_at, input, created_at, dispatched_at, is_retried,
    train_state, start_time, deadline_at, worker_id, fence)
SELECT :owner, :name, 'dispatched', 'local',
       -- the calling run, unless it belongs to another application
       (SELECT r.id FROM work_queue r WHERE r.id = :parent_id AND r.train_state IS NOT NULL AND r.owner = :owner),
       gandy_now(), gandy_now(), :input, gandy_now(), gandy_now(), 0, 'in_progress', gandy_now(),
       gandy_later(nullif(min(:timeout_seconds, 4e9), 4e9)), :worker_id, (SELECT value FROM sequence WHERE name = 'fence')
RETURNING id, fence, start_time AS started_at;

-- name: end_runs
-- Moves runs from the queue into history, if their claims still own them (fence).
-- A run that an operator cancelled is recorded as cancelled even if it failed.
-- The row moves: a column that outlives the end is in INSERT and SELECT, or its value is lost.
-- As a set, because each statement that writes opens every index of its table: run by run it takes twice as long.
CREATE TEMP TABLE IF NOT EXISTS ended (
    id INTEGER PRIMARY KEY, worker_id TEXT, fence INTEGER, train_state TEXT, output TEXT, junctions TEXT, failure_junction TEXT,
    failure_exception TEXT, failure_reason TEXT, stack_trace TEXT, cancellation_reason TEXT, keep_for_seconds REAL,
    progress_done INTEGER, progress_total INTEGER);
DELETE FROM temp.ended;
INSERT INTO temp.ended VALUES /* for each row */ (
    :id, :worker_id, :fence, :train_state, :output, :junctions, :failure_junction, :failure_exception, :failure_reason,
    :stack_trace, :cancellation_reason, :keep_for_seconds, :progress_done, :progress_total);
DELETE FROM temp.ended WHERE NOT EXISTS (
    SELECT 1 FROM work_queue r
    WHERE r.id = ended.id AND r.train_state IS NOT NULL AND r.worker_id IS ended.worker_id AND r.fence IS ended.fence);
INSERT INTO history (
    id, owner, external_id, name, train_state, manifest_id, manifest_group_id, parent_id, retry_of, dead_letter_id, origin,
    priority, due_at, scheduled_at, attempt, input, input_type_name, output, created_at, start_time, end_time, keep_until,
    max_retries, is_retried, retry_delay_seconds, timeout_seconds, failure_junction, failure_exception, failure_reason,
    stack_trace, cancellation_requested, cancellation_reason, cancellation_requested_at, is_cancellation_ignored, junctions,
    progress_done, progress_total, worker_id, fence)
SELECT r.id, r.owner, r.external_id, r.train_name,
       CASE WHEN e.train_state = 'failed' AND coalesce(r.cancellation_reason, '') = 'operator' THEN 'cancelled' ELSE e.train_state END,
       r.manifest_id, r.manifest_group_id, r.parent_id, r.retry_of, r.dead_letter_id, nullif(r.origin, 'local'), r.priority,
       r.due_at, nullif(r.scheduled_at, r.due_at), r.attempt, r.input, r.input_type_name, e.output, r.dispatched_at, r.start_time,
       gandy_now(), CASE WHEN e.keep_for_seconds IS NULL THEN gandy_later(:usual_seconds) ELSE gandy_later(e.keep_for_seconds) END, r.max_retries, r.is_retried, r.retry_delay_seconds,
       r.timeout_seconds, e.failure_junction, e.failure_exception, e.failure_reason, e.stack_trace, r.cancellation_requested,
       coalesce(r.cancellation_reason, e.cancellation_reason), r.cancellation_requested_at, r.is_cancellation_ignored, e.junctions,
       e.progress_done, e.progress_total, r.worker_id, r.fence
FROM temp.ended e CROSS JOIN work_queue r  -- in this order
WHERE r.id = e.id;
DELETE FROM work_queue WHERE id IN (SELECT e.id FROM temp.ended e)
RETURNING id, NULL AS bucket,
    coalesce(cancellation_reason, '') = 'operator'
        AND (SELECT e.train_state FROM temp.ended e WHERE e.id = work_queue.id) = 'failed' AS is_overruled,
    CAST(strftime('%s', gandy_now()) AS INTEGER) / 60 AS minute,
    (julianday(start_time) - julianday(scheduled_at)) * 86400 AS waited,
    (julianday(gandy_now()) - julianday(start_time)) * 86400 AS took,
    (SELECT g.max_active_jobs FROM manifest_group g WHERE g.id = work_queue.manifest_group_id) IS NOT NULL AS is_freed;
