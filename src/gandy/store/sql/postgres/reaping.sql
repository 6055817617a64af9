-- name: cancel_timed_out
-- Requests cancellation of runs past their deadline, which counts from the start of the run.
UPDATE gandy.work_queue r
SET cancellation_requested = true, cancellation_reason = 'timeout', cancellation_requested_at = gandy.now()
WHERE r.train_state IS NOT NULL AND NOT r.cancellation_requested AND r.id = ANY(ARRAY(
    SELECT id FROM gandy.work_queue
    WHERE status = 'dispatched' AND train_state = 'in_progress' AND deadline_at <= gandy.now() AND NOT cancellation_requested
    ORDER BY deadline_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING r.id;

-- name: find_stale_pending
-- No process will start these: no live worker knows the train, or the run was delivered and never started.
SELECT r.id, r.owner, r.train_name AS train, r.worker_id, r.fence, r.manifest_id, r.failures, r.losses, r.lone_losses,
       r.max_retries, r.is_retried, r.retry_delay_seconds, r.unique_key
FROM gandy.work_queue r
WHERE r.status = 'dispatched' AND r.train_state = 'pending' AND r.id > %(after)s
  AND r.dispatched_at <= gandy.now() - make_interval(secs => %(stale_seconds)s::float8)
  AND ((r.delivery_attempts > 0 AND r.delivery_error IS NULL) OR (
    -- a failed delivery is retried: the run is stale only if no process retries any more
    (r.delivery_error IS NULL OR r.deliver_after <= gandy.now() - make_interval(secs => %(stale_seconds)s::float8))
    AND NOT EXISTS (
    SELECT 1 FROM gandy.worker w
    WHERE w.owner = r.owner AND w.state = 'running' AND w.lease_expires_at > gandy.now() AND r.train_name = ANY(w.trains))))
ORDER BY r.id LIMIT %(limit)s;

-- name: find_silent_workers
-- Their leases have expired; the caller decides whether they are dead.
SELECT id FROM gandy.worker WHERE state IN ('running', 'draining') AND lease_expires_at <= gandy.now() ORDER BY id;

-- name: next_lease_end
-- When the first lease expires if it is not renewed.
SELECT extract(epoch FROM lease_expires_at - gandy.now())::float8 AS seconds FROM gandy.worker
WHERE state IN ('running', 'draining') ORDER BY lease_expires_at LIMIT 1;

-- name: mark_workers_lost
-- A lost worker's next renewal fails. A row that its worker is renewing now (locked) is skipped; the next cycle finds runs
-- that are claimed after this.
WITH silent AS MATERIALIZED (
    SELECT id FROM gandy.worker
    WHERE id = ANY(%(ids)s::text[]) AND state IN ('running', 'draining') AND lease_expires_at <= gandy.now()
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE gandy.worker w SET state = 'lost' FROM silent WHERE w.id = silent.id
RETURNING w.id;

-- name: find_abandoned
-- In progress, but their worker is lost, stopped or unknown. Reads the live runs and looks up each worker by id: neither
-- history nor past workers are read.
WITH gone AS MATERIALIZED (
    SELECT h.worker_id, coalesce(w.state, 'unknown') AS worker_state
    FROM (SELECT DISTINCT r.worker_id FROM gandy.work_queue r
          WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.worker_id IS NOT NULL) h
    LEFT JOIN LATERAL (SELECT state FROM gandy.worker WHERE id = h.worker_id LIMIT 1) w ON true
    WHERE coalesce(w.state, 'unknown') IN ('stopped', 'lost', 'unknown')
)
SELECT r.id, r.owner, r.train_name AS train, r.worker_id, r.fence, r.manifest_id, r.failures, r.losses, r.lone_losses,
       r.max_retries, r.is_retried, r.retry_delay_seconds, r.unique_key, gone.worker_state
FROM gone JOIN gandy.work_queue r ON r.worker_id = gone.worker_id
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.id > %(after)s
ORDER BY r.id LIMIT %(limit)s;

-- name: find_overaged
-- A fallback for the leases: past the timeout plus grace period, and past the maximum age; a run without a deadline
-- has no maximum age.
SELECT r.id, r.owner, r.train_name AS train, r.worker_id, r.fence, r.manifest_id, r.failures, r.losses, r.lone_losses,
       r.max_retries, r.is_retried, r.retry_delay_seconds, r.unique_key
FROM gandy.work_queue r
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.id > %(after)s
  AND r.deadline_at <= gandy.now() - make_interval(secs => %(grace_seconds)s::float8)
  AND r.start_time <= gandy.now() - make_interval(secs => %(stale_seconds)s::float8)
ORDER BY r.id LIMIT %(limit)s;
