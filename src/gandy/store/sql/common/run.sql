-- name: search_runs
-- Newest first; ids ascend in the order of creation. The walk is bounded: a last row with place = searched marks the limit.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner::text IS NULL OR w.owner = :owner) AND (:train::text IS NULL OR w.name = :train)
           AND (:state::text IS NULL OR w.train_state = :state) AS is_match
    FROM (SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason
          FROM gandy.metadata WHERE id < :before ORDER BY id DESC LIMIT :searched) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: load_run
-- One run; on PostgreSQL, from any partition.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.parent_id, r.origin, r.due_at,
       r.attempt, r.input, r.output, r.created_at, r.start_time, r.end_time, r.failure_junction, r.failure_exception,
       r.failure_reason, r.stack_trace, r.cancellation_requested, r.cancellation_reason, r.currently_running_junction,
       r.junctions, r.progress_done, r.progress_total, r.worker_id, r.keep_until
FROM gandy.metadata r LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.id = :id AND (:owner::text IS NULL OR r.owner = :owner);

-- name: find_next_attempt
-- The entry that retries a failed run; it is kept a little longer than its own run.
SELECT id FROM gandy.work_queue WHERE retry_of = :id AND (:owner::text IS NULL OR owner = :owner);

-- name: find_ended_job
-- The state of a job without a live run: of its finished run, or of its entry.
SELECT state FROM (
    SELECT r.train_state AS state FROM gandy.metadata r
    WHERE r.id = :id AND (:owner::text IS NULL OR r.owner = :owner)
    UNION ALL
    SELECT q.status FROM gandy.work_queue q
    WHERE q.id = :id AND q.status <> 'dispatched' AND (:owner::text IS NULL OR q.owner = :owner)) j LIMIT 1;

-- name: load_logs
-- One run's lines in their order, by the index on the run; on PostgreSQL, in every partition.
SELECT id, created_at, level, logger, message FROM gandy.log
WHERE metadata_id = :run_id AND id > :after
  AND EXISTS (SELECT 1 FROM gandy.metadata r WHERE r.id = :run_id AND (:owner::text IS NULL OR r.owner = :owner))
ORDER BY id LIMIT :limit;

-- name: load_layouts
-- All layouts of a train's payloads.
SELECT input_layout, output_layout FROM gandy.payload_layout
WHERE owner = :owner AND train_name = :train_name ORDER BY digest;
