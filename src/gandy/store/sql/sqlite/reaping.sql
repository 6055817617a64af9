-- name: cancel_timed_out
-- Asks runs that used up their time to stop; the clock started when the worker did.
UPDATE metadata
SET cancellation_requested = 1, cancellation_reason = 'timeout', cancellation_requested_at = gandy_now()
WHERE id IN (
    SELECT id FROM metadata
    WHERE train_state = 'in_progress' AND deadline_at <= gandy_now() AND NOT cancellation_requested
    ORDER BY deadline_at LIMIT :limit)
RETURNING id;

-- name: find_stale_pending
-- Nobody will start these: no live worker knows the train, or a submitter took the run and never began it.
SELECT r.id, r.owner, r.name AS train, r.worker_id, r.fence, r.manifest_id, q.failures, q.losses, q.lone_losses,
       q.max_retries, q.is_retried, q.retry_delay_seconds, q.unique_key
FROM metadata r INDEXED BY ix_metadata_live_pending LEFT JOIN work_queue q ON q.id = r.id
WHERE r.train_state = 'pending' AND +r.id > :after AND r.created_at <= gandy_later(-:stale_seconds)
  AND ((r.delivery_attempts > 0 AND r.delivery_error IS NULL) OR (
    -- a delivery that failed is made again: only where no process does so any more is it stale
    (r.delivery_error IS NULL OR r.deliver_after <= gandy_later(-:stale_seconds))
    AND NOT EXISTS (
    SELECT 1 FROM worker w
    WHERE w.owner = r.owner AND w.state IN ('running', 'draining') AND w.state = 'running' AND w.lease_expires_at > gandy_now()
      AND r.name IN (SELECT value FROM json_each(w.trains)))))
ORDER BY +r.id LIMIT :limit;

-- name: find_silent_workers
-- Their leases have run out; whether they are dead is for the caller to judge.
SELECT id FROM worker INDEXED BY ix_worker_lease
WHERE state IN ('running', 'draining') AND lease_expires_at <= gandy_now() ORDER BY id;

-- name: next_lease_end
-- When a worker that stays silent would first be missed.
SELECT gandy_seconds(lease_expires_at) AS seconds FROM worker
WHERE state IN ('running', 'draining') ORDER BY lease_expires_at LIMIT 1;

-- name: mark_workers_lost
-- A worker that comes back finds that it is no longer trusted.
UPDATE worker SET state = 'lost'
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('running', 'draining') AND lease_expires_at <= gandy_now()
RETURNING id;

-- name: find_abandoned
-- In progress, and no worker is left to end them: it was found lost, it stopped, or its row is gone. The live runs are read
-- and each worker is looked up by its id: neither history nor workers that are gone cost anything.
SELECT r.id, r.owner, r.name AS train, r.worker_id, r.fence, r.manifest_id, q.failures, q.losses, q.lone_losses,
       q.max_retries, q.is_retried, q.retry_delay_seconds, q.unique_key,
       coalesce(w.state, 'unknown') AS worker_state
FROM metadata r INDEXED BY ix_metadata_live_deadline
LEFT JOIN worker w ON w.id = r.worker_id LEFT JOIN work_queue q ON q.id = r.id
WHERE r.train_state = 'in_progress' AND +r.id > :after AND r.worker_id IS NOT NULL
  AND coalesce(w.state, 'unknown') IN ('stopped', 'lost', 'unknown')
ORDER BY +r.id LIMIT :limit;

-- name: find_overaged
-- The net under the leases: far past the timeout, and past the age at which anything is given up; a run without a
-- deadline has no such age.
SELECT r.id, r.owner, r.name AS train, r.worker_id, r.fence, r.manifest_id, q.failures, q.losses, q.lone_losses,
       q.max_retries, q.is_retried, q.retry_delay_seconds, q.unique_key
FROM metadata r INDEXED BY ix_metadata_live_deadline LEFT JOIN work_queue q ON q.id = r.id
WHERE r.train_state = 'in_progress' AND +r.id > :after AND r.deadline_at <= gandy_later(-:grace_seconds)
  AND r.start_time <= gandy_later(-:stale_seconds)
ORDER BY +r.id LIMIT :limit;

-- name: find_live_run
-- A run that is not over, of this application or of any.
SELECT r.id, r.owner, r.name AS train, r.worker_id, r.fence, r.manifest_id, q.failures, q.losses, q.lone_losses,
       q.max_retries, q.is_retried, q.retry_delay_seconds, q.unique_key
FROM metadata r LEFT JOIN work_queue q ON q.id = r.id
WHERE r.id = :id AND r.train_state IN ('pending', 'in_progress') AND (:owner IS NULL OR r.owner = :owner);

-- name: find_ended_job
-- What became of a job that has no live run: the state of its run, or of the entry that waits.
SELECT state FROM (
    SELECT r.train_state AS state FROM metadata r WHERE r.id = :id AND (:owner IS NULL OR r.owner = :owner)
    UNION ALL
    SELECT q.status FROM work_queue q
    WHERE q.id = :id AND q.status <> 'dispatched' AND (:owner IS NULL OR q.owner = :owner)) j LIMIT 1;
