-- name: register_worker
-- Identity is random and new with every start; a host name would be shared.
INSERT INTO worker (id, owner, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, trains)
VALUES (:id, :owner, :host, :pid, :version, gandy_now(), gandy_now(), gandy_later(:lease_seconds), :slots, :trains);

-- name: renew_lease
-- One row for a whole worker; a lease that has run out is another matter.
UPDATE worker SET last_seen_at = gandy_now(), busy = :busy, lease_expires_at = gandy_later(:lease_seconds),
    longest_stall_seconds = max(longest_stall_seconds, :stall_seconds),
    stalled_junction = CASE WHEN :stall_seconds > longest_stall_seconds THEN :stalled_junction ELSE stalled_junction END
WHERE id = :id AND state IN ('running', 'draining') AND lease_expires_at > gandy_now()
RETURNING state;

-- name: renew_late
-- Of the late worker and whoever finds it lost, one gets the row first.
UPDATE worker SET last_seen_at = gandy_now(), lease_expires_at = gandy_later(:lease_seconds)
WHERE id = :id AND state IN ('running', 'draining') AND lease_expires_at <= gandy_now()
RETURNING state, owner, trains;

-- name: hold_worker
-- Differs by necessity: the transaction already holds the file's write lock.
SELECT state FROM worker WHERE id = :id;

-- name: owned_runs
-- What the worker should hold; bounded by what is live.
SELECT r.id FROM metadata r WHERE r.train_state = 'in_progress' AND r.worker_id = :worker_id;

-- name: find_unheard_run
-- A run whose worker is gone, or gave no sign of life since the asking worker started; bounded by what is live.
SELECT r.id FROM metadata r INDEXED BY ix_metadata_live_deadline
WHERE r.train_state = 'in_progress' AND r.owner = :owner AND r.worker_id <> :worker_id AND NOT EXISTS (
    SELECT 1 FROM worker w
    WHERE w.id = r.worker_id AND w.state IN ('running', 'draining')
      AND w.last_seen_at >= (SELECT started_at FROM worker WHERE id = :worker_id))
LIMIT 1;

-- name: stop_worker
-- A clean end: never while a run of it is open, which is then found by its lease.
UPDATE worker SET state = 'stopped', last_seen_at = gandy_now(), busy = 0
WHERE id = :id AND state IN ('running', 'draining') AND NOT EXISTS (
    SELECT 1 FROM metadata r WHERE r.train_state = 'in_progress' AND r.worker_id = :id);

-- name: drain_worker
-- It finishes what it has and claims no more.
UPDATE worker SET state = 'draining' WHERE id = :id AND (:owner IS NULL OR owner = :owner) AND state = 'running' RETURNING id, owner;

-- name: live_workers
-- Whose lease holds now: their slots make the default cap, their trains say what can run. A process without slots only
-- holds runs of its own.
SELECT id, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, busy, trains, state
FROM worker
WHERE owner = :owner AND state IN ('running', 'draining') AND lease_expires_at > gandy_now() AND slots > 0
ORDER BY started_at;

-- name: claim_pending
-- Differs by necessity: SQLite has no data-modifying CTE, so the claim's fence marks what it took.
UPDATE sequence SET value = value + 1 WHERE name = 'fence';
UPDATE metadata SET train_state = 'in_progress', worker_id = :worker_id, start_time = gandy_now(),
    fence = (SELECT value FROM sequence WHERE name = 'fence'),
    -- more than a lifetime is no deadline: infinity says so, and what an older version stored must not fail
    deadline_at = gandy_later(nullif(min(coalesce(
        (SELECT coalesce(q.timeout_seconds, m.timeout_seconds) FROM work_queue q
         LEFT JOIN manifest m ON m.id = q.manifest_id WHERE q.id = metadata.id), :default_timeout_seconds), 4e9), 4e9))
WHERE id IN (SELECT r.id FROM metadata r
             WHERE r.owner = :owner AND r.train_state = 'pending' AND r.name IN (SELECT value FROM json_each(:trains))
             ORDER BY r.rank DESC, r.created_at, r.id LIMIT :limit);
DELETE FROM unique_key WHERE held_until = 'start' AND holder_id IN (
    SELECT id FROM metadata WHERE train_state = 'in_progress' AND fence = (SELECT value FROM sequence WHERE name = 'fence'));
SELECT r.id, r.fence, r.start_time AS started_at, q.train_name, q.input, q.manifest_id, m.external_id AS manifest,
    q.manifest_group_id, q.due_at, q.attempt, q.scheduled_at, q.failures, q.losses, q.lone_losses, q.max_retries,
    q.is_retried, q.retry_delay_seconds, q.unique_key,
    coalesce(q.timeout_seconds, m.timeout_seconds, :default_timeout_seconds) AS timeout_seconds
FROM metadata r JOIN work_queue q ON q.id = r.id LEFT JOIN manifest m ON m.id = q.manifest_id
WHERE r.train_state = 'in_progress' AND r.fence = (SELECT value FROM sequence WHERE name = 'fence');
