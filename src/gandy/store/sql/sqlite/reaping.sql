-- name: cancel_timed_out
-- Requests cancellation of runs past their deadline, which counts from the start of the run.
UPDATE work_queue
SET cancellation_requested = 1, cancellation_reason = 'timeout', cancellation_requested_at = gandy_now()
WHERE id IN (
    SELECT id FROM work_queue INDEXED BY ix_work_queue_live_run
    WHERE status = 'dispatched' AND train_state = 'in_progress' AND deadline_at <= gandy_now() AND NOT cancellation_requested
    ORDER BY deadline_at LIMIT :limit)
RETURNING id;

-- name: find_stale_pending
-- No process will start these: no live worker knows the train, or the run was delivered and never started.
SELECT r.id, r.owner, r.train_name AS train, r.worker_id, r.fence, r.manifest_id, r.failures, r.losses, r.lone_losses,
       r.max_retries, r.is_retried, r.retry_delay_seconds, r.unique_key
FROM work_queue r INDEXED BY ix_work_queue_live_pending
WHERE r.train_state = 'pending' AND +r.id > :after AND r.dispatched_at <= gandy_later(-:stale_seconds)
  AND ((r.delivery_attempts > 0 AND r.delivery_error IS NULL) OR (
    -- a failed delivery is retried: the run is stale only if no process retries any more
    (r.delivery_error IS NULL OR r.deliver_after <= gandy_later(-:stale_seconds))
    AND NOT EXISTS (
    SELECT 1 FROM worker w
    WHERE w.owner = r.owner AND w.state IN ('running', 'draining') AND w.state = 'running' AND w.lease_expires_at > gandy_now()
      AND r.train_name IN (SELECT value FROM json_each(w.trains)))))
ORDER BY +r.id LIMIT :limit;

-- name: find_silent_workers
-- Their leases have expired; the caller decides whether they are dead.
SELECT id FROM worker INDEXED BY ix_worker_lease
WHERE state IN ('running', 'draining') AND lease_expires_at <= gandy_now() ORDER BY id;

-- name: next_lease_end
-- When the first lease expires if it is not renewed.
SELECT gandy_seconds(lease_expires_at) AS seconds FROM worker
WHERE state IN ('running', 'draining') ORDER BY lease_expires_at LIMIT 1;

-- name: mark_workers_lost
-- A lost worker's next renewal fails.
UPDATE worker SET state = 'lost'
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('running', 'draining') AND lease_expires_at <= gandy_now()
RETURNING id;

-- name: find_abandoned
-- In progress, but their worker is lost, stopped or unknown. Reads the live runs and looks up each worker by id: neither
-- history nor past workers are read.
SELECT r.id, r.owner, r.train_name AS train, r.worker_id, r.fence, r.manifest_id, r.failures, r.losses, r.lone_losses,
       r.max_retries, r.is_retried, r.retry_delay_seconds, r.unique_key,
       coalesce(w.state, 'unknown') AS worker_state
FROM work_queue r INDEXED BY ix_work_queue_live_run
LEFT JOIN worker w ON w.id = r.worker_id
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND +r.id > :after AND r.worker_id IS NOT NULL
  AND coalesce(w.state, 'unknown') IN ('stopped', 'lost', 'unknown')
ORDER BY +r.id LIMIT :limit;

-- name: find_overaged
-- A fallback for the leases: past the timeout plus grace period, and past the maximum age; a run without a deadline
-- has no maximum age.
SELECT r.id, r.owner, r.train_name AS train, r.worker_id, r.fence, r.manifest_id, r.failures, r.losses, r.lone_losses,
       r.max_retries, r.is_retried, r.retry_delay_seconds, r.unique_key
FROM work_queue r INDEXED BY ix_work_queue_live_run
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND +r.id > :after AND r.deadline_at <= gandy_later(-:grace_seconds)
  AND r.start_time <= gandy_later(-:stale_seconds)
ORDER BY +r.id LIMIT :limit;
