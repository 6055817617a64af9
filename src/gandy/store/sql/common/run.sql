-- name: load_run
-- One run, live or ended; on PostgreSQL, from any partition.
SELECT run.id, run.owner, run.name AS train, run.train_state AS state, m.external_id AS manifest, run.parent_id, run.origin,
       run.due_at, run.attempt, run.input, run.output, run.created_at, run.start_time, run.end_time, run.failure_junction,
       run.failure_exception, run.failure_reason, run.stack_trace, run.cancellation_requested, run.cancellation_reason,
       run.currently_running_junction, run.junctions, run.progress_done, run.progress_total, run.worker_id, run.keep_until
FROM gandy.metadata run LEFT JOIN gandy.manifest m ON m.id = run.manifest_id
WHERE run.id = :id AND (:owner::text IS NULL OR run.owner = :owner);

-- name: find_next_attempt
-- The attempt that follows a failed run: an entry, a live run or an ended one.
SELECT id FROM gandy.work_queue WHERE retry_of = :id AND (:owner::text IS NULL OR owner = :owner)
UNION ALL
SELECT id FROM gandy.history WHERE retry_of = :id AND (:owner::text IS NULL OR owner = :owner)
LIMIT 1;

-- name: find_ended_job
-- The state of a job that is not queued any more: of its live or finished run, or of its entry.
SELECT train_state AS state FROM gandy.history WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
UNION ALL
SELECT coalesce(train_state, status) FROM gandy.work_queue WHERE id = :id AND (:owner::text IS NULL OR owner = :owner)
LIMIT 1;

-- name: load_logs
-- One run's lines in their order, by the index on the run; on PostgreSQL, in every partition.
SELECT id, created_at, level, logger, message FROM gandy.log
WHERE metadata_id = :run_id AND id > :after
  AND (EXISTS (SELECT 1 FROM gandy.history r WHERE r.id = :run_id AND (:owner::text IS NULL OR r.owner = :owner))
       OR EXISTS (SELECT 1 FROM gandy.work_queue r WHERE r.id = :run_id AND (:owner::text IS NULL OR r.owner = :owner)))
ORDER BY id LIMIT :limit;

-- name: load_layouts
-- All layouts of a train's payloads.
SELECT input_layout, output_layout FROM gandy.payload_layout
WHERE owner = :owner AND train_name = :train_name ORDER BY digest;

-- name: find_live_run
-- A live run, of one application or of any.
SELECT r.id, r.owner, r.train_name AS train, r.worker_id, r.fence, r.manifest_id, r.failures, r.losses, r.lone_losses,
       r.max_retries, r.is_retried, r.retry_delay_seconds, r.unique_key
FROM gandy.work_queue r
WHERE r.id = :id AND r.train_state IS NOT NULL AND (:owner::text IS NULL OR r.owner = :owner);
