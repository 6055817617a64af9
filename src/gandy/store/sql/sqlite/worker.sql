-- name: register_worker
-- The id is random and new with every start: several workers can share a host name.
INSERT INTO worker (id, owner, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, trains)
VALUES (:id, :owner, :host, :pid, :version, gandy_now(), gandy_now(), gandy_later(:lease_seconds), :slots, :trains);

-- name: renew_lease
-- One row for all runs of a worker; an expired lease is left to renew_late.
UPDATE worker SET last_seen_at = gandy_now(), busy = :busy, lease_expires_at = gandy_later(:lease_seconds),
    longest_stall_seconds = max(longest_stall_seconds, :stall_seconds),
    stalled_junction = CASE WHEN :stall_seconds > longest_stall_seconds THEN :stalled_junction ELSE stalled_junction END
WHERE id = :id AND state IN ('running', 'draining') AND lease_expires_at > gandy_now()
RETURNING state;

-- name: renew_late
-- The late worker and the reaper compete for the row lock: the first one decides.
UPDATE worker SET last_seen_at = gandy_now(), lease_expires_at = gandy_later(:lease_seconds)
WHERE id = :id AND state IN ('running', 'draining') AND lease_expires_at <= gandy_now()
RETURNING state, owner, trains;

-- name: hold_worker
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT state FROM worker WHERE id = :id;

-- name: owned_runs
-- The runs that the worker should have; reads only live runs.
SELECT r.id FROM work_queue r INDEXED BY ix_work_queue_live_run
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.worker_id = :worker_id;

-- name: find_unheard_run
-- A run whose worker is gone or has not renewed since this worker started; reads only live runs.
SELECT r.id FROM work_queue r INDEXED BY ix_work_queue_live_run
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.owner = :owner AND r.worker_id <> :worker_id AND NOT EXISTS (
    SELECT 1 FROM worker w
    WHERE w.id = r.worker_id AND w.state IN ('running', 'draining')
      AND w.last_seen_at >= (SELECT started_at FROM worker WHERE id = :worker_id))
LIMIT 1;

-- name: stop_worker
-- A clean shutdown; refused while the worker has a run in progress, which is found later by the expired lease.
UPDATE worker SET state = 'stopped', last_seen_at = gandy_now(), busy = 0
WHERE id = :id AND state IN ('running', 'draining') AND NOT EXISTS (
    SELECT 1 FROM work_queue r INDEXED BY ix_work_queue_live_run
    WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.worker_id = :id);

-- name: claim_pending
-- Differs from PostgreSQL: SQLite has no data-modifying CTE, so the claim's fence marks what it took.
UPDATE sequence SET value = value + 1 WHERE name = 'fence';
UPDATE work_queue SET train_state = 'in_progress', worker_id = :worker_id, start_time = gandy_now(), claim_rank = NULL,
    fence = (SELECT value FROM sequence WHERE name = 'fence'),
    -- more than about 126 years means no deadline (null); a larger value from an older version would overflow
    deadline_at = gandy_later(nullif(min(coalesce(
        timeout_seconds, (SELECT m.timeout_seconds FROM manifest m WHERE m.id = work_queue.manifest_id),
        :default_timeout_seconds), 4e9), 4e9))
WHERE id IN (SELECT r.id FROM work_queue r
             WHERE r.owner = :owner AND r.train_state = 'pending' AND r.train_name IN (SELECT value FROM json_each(:trains))
             ORDER BY r.claim_rank DESC, r.dispatched_at, r.id LIMIT :limit);
DELETE FROM unique_key WHERE held_until = 'start' AND holder_id IN (
    SELECT id FROM work_queue INDEXED BY ix_work_queue_live_run
    WHERE status = 'dispatched' AND train_state = 'in_progress' AND fence = (SELECT value FROM sequence WHERE name = 'fence'));
SELECT q.id, q.fence, q.start_time AS started_at, q.train_name, q.input, q.manifest_id, m.external_id AS manifest,
    q.manifest_group_id, q.due_at, q.attempt, q.scheduled_at, q.failures, q.losses, q.lone_losses, q.max_retries,
    q.is_retried, q.retry_delay_seconds, q.unique_key,
    coalesce(q.timeout_seconds, m.timeout_seconds, :default_timeout_seconds) AS timeout_seconds
FROM work_queue q INDEXED BY ix_work_queue_live_run LEFT JOIN manifest m ON m.id = q.manifest_id
WHERE q.status = 'dispatched' AND q.train_state = 'in_progress' AND q.fence = (SELECT value FROM sequence WHERE name = 'fence');
