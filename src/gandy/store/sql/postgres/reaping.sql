-- name: cancel_timed_out
-- Asks runs that used up their time to stop; the clock started when the worker did.
UPDATE gandy.metadata_live r
SET cancellation_requested = true, cancellation_reason = 'timeout', cancellation_requested_at = gandy.now()
WHERE r.bucket = 'infinity' AND NOT r.cancellation_requested AND r.id = ANY(ARRAY(
    SELECT id FROM gandy.metadata_live
    WHERE train_state = 'in_progress' AND deadline_at <= gandy.now() AND NOT cancellation_requested
    ORDER BY deadline_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING r.id;

-- name: find_stale_pending
-- Nobody will start these: no live worker knows the train, or a submitter took the run and never began it.
SELECT r.id, r.owner, r.name AS train, r.worker_id, r.fence, r.manifest_id, q.failures, q.losses, q.lone_losses,
       q.max_retries, q.is_retried, q.retry_delay_seconds, q.unique_key
FROM gandy.metadata_live r LEFT JOIN gandy.work_queue q ON q.id = r.id
WHERE r.train_state = 'pending' AND r.id > %(after)s AND r.created_at <= gandy.now() - make_interval(secs => %(stale_seconds)s::float8)
  AND ((r.delivery_attempts > 0 AND r.delivery_error IS NULL) OR (
    -- a delivery that failed is made again: only where no process does so any more is it stale
    (r.delivery_error IS NULL OR r.deliver_after <= gandy.now() - make_interval(secs => %(stale_seconds)s::float8))
    AND NOT EXISTS (
    SELECT 1 FROM gandy.worker w
    WHERE w.owner = r.owner AND w.state = 'running' AND w.lease_expires_at > gandy.now() AND r.name = ANY(w.trains))))
ORDER BY r.id LIMIT %(limit)s;

-- name: find_silent_workers
-- Their leases have run out; whether they are dead is for the caller to judge.
SELECT id FROM gandy.worker WHERE state IN ('running', 'draining') AND lease_expires_at <= gandy.now() ORDER BY id;

-- name: next_lease_end
-- When a worker that stays silent would first be missed.
SELECT extract(epoch FROM lease_expires_at - gandy.now())::float8 AS seconds FROM gandy.worker
WHERE state IN ('running', 'draining') ORDER BY lease_expires_at LIMIT 1;

-- name: mark_workers_lost
-- A worker that comes back finds that it is no longer trusted. A row that its worker renews at this moment is left alone;
-- what a claim brings after this is found by the next cycle.
WITH silent AS MATERIALIZED (
    SELECT id FROM gandy.worker
    WHERE id = ANY(%(ids)s::text[]) AND state IN ('running', 'draining') AND lease_expires_at <= gandy.now()
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE gandy.worker w SET state = 'lost' FROM silent WHERE w.id = silent.id
RETURNING w.id;

-- name: find_abandoned
-- In progress, and no worker is left to end them: it was found lost, it stopped, or its row is gone. The live runs are read
-- and each worker is looked up by its id: neither history nor workers that are gone cost anything.
WITH gone AS MATERIALIZED (
    SELECT h.worker_id, coalesce(w.state, 'unknown') AS worker_state
    FROM (SELECT DISTINCT r.worker_id FROM gandy.metadata_live r
          WHERE r.train_state = 'in_progress' AND r.worker_id IS NOT NULL) h
    LEFT JOIN LATERAL (SELECT state FROM gandy.worker WHERE id = h.worker_id LIMIT 1) w ON true
    WHERE coalesce(w.state, 'unknown') IN ('stopped', 'lost', 'unknown')
)
SELECT r.id, r.owner, r.name AS train, r.worker_id, r.fence, r.manifest_id, q.failures, q.losses, q.lone_losses,
       q.max_retries, q.is_retried, q.retry_delay_seconds, q.unique_key, gone.worker_state
FROM gone JOIN gandy.metadata_live r ON r.worker_id = gone.worker_id LEFT JOIN gandy.work_queue q ON q.id = r.id
WHERE r.train_state = 'in_progress' AND r.id > %(after)s
ORDER BY r.id LIMIT %(limit)s;

-- name: find_overaged
-- The net under the leases: far past the timeout, and past the age at which anything is given up; a run without a
-- deadline has no such age.
SELECT r.id, r.owner, r.name AS train, r.worker_id, r.fence, r.manifest_id, q.failures, q.losses, q.lone_losses,
       q.max_retries, q.is_retried, q.retry_delay_seconds, q.unique_key
FROM gandy.metadata_live r LEFT JOIN gandy.work_queue q ON q.id = r.id
WHERE r.train_state = 'in_progress' AND r.id > %(after)s
  AND r.deadline_at <= gandy.now() - make_interval(secs => %(grace_seconds)s::float8)
  AND r.start_time <= gandy.now() - make_interval(secs => %(stale_seconds)s::float8)
ORDER BY r.id LIMIT %(limit)s;

-- name: find_live_run
-- A run that is not over, of this application or of any.
SELECT r.id, r.owner, r.name AS train, r.worker_id, r.fence, r.manifest_id, q.failures, q.losses, q.lone_losses,
       q.max_retries, q.is_retried, q.retry_delay_seconds, q.unique_key
FROM gandy.metadata_live r LEFT JOIN gandy.work_queue q ON q.id = r.id
WHERE r.id = %(id)s AND r.bucket = 'infinity' AND (%(owner)s::text IS NULL OR r.owner = %(owner)s);

-- name: find_ended_job
-- What became of a job that has no live run: the state of its run, or of the entry that waits.
SELECT state FROM (
    SELECT r.train_state AS state FROM gandy.metadata r
    WHERE r.id = %(id)s AND (%(owner)s::text IS NULL OR r.owner = %(owner)s)
    UNION ALL
    SELECT q.status FROM gandy.work_queue q
    WHERE q.id = %(id)s AND q.status <> 'dispatched' AND (%(owner)s::text IS NULL OR q.owner = %(owner)s)) j LIMIT 1;
