-- name: register_worker
-- Identity is random and new with every start; a host name would be shared.
INSERT INTO gandy.worker (id, owner, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, trains)
SELECT %(id)s, %(owner)s, %(host)s, %(pid)s, %(version)s, now, now, now + make_interval(secs => %(lease_seconds)s::float8),
       %(slots)s, %(trains)s::text[]
FROM gandy.now() AS now;

-- name: renew_lease
-- One row for a whole worker; a lease that has run out is another matter.
UPDATE gandy.worker SET last_seen_at = gandy.now(), busy = %(busy)s,
    lease_expires_at = gandy.now() + make_interval(secs => %(lease_seconds)s::float8),
    longest_stall_seconds = greatest(longest_stall_seconds, %(stall_seconds)s::float8),
    stalled_junction = CASE WHEN %(stall_seconds)s::float8 > longest_stall_seconds THEN %(stalled_junction)s ELSE stalled_junction END
WHERE id = %(id)s AND state IN ('running', 'draining') AND lease_expires_at > gandy.now()
RETURNING state;

-- name: renew_late
-- Of the late worker and whoever finds it lost, one gets the row first.
UPDATE gandy.worker SET last_seen_at = gandy.now(),
    lease_expires_at = gandy.now() + make_interval(secs => %(lease_seconds)s::float8)
WHERE id = %(id)s AND state IN ('running', 'draining') AND lease_expires_at <= gandy.now()
RETURNING state, owner, trains;

-- name: hold_worker
-- Before anything else of a claim is locked: a reaper that finds the worker lost comes before the claim, or passes it over.
-- KEY SHARE, because a lease renewal must not wait for its own worker's claim.
SELECT state FROM gandy.worker WHERE id = %(id)s FOR KEY SHARE;

-- name: owned_runs
-- What the worker should hold; bounded by what is live.
SELECT r.id FROM gandy.metadata_live r WHERE r.train_state = 'in_progress' AND r.worker_id = %(worker_id)s;

-- name: find_unheard_run
-- A run whose worker is gone, or gave no sign of life since the asking worker started; bounded by what is live.
SELECT r.id FROM gandy.metadata_live r
WHERE r.train_state = 'in_progress' AND r.owner = %(owner)s AND r.worker_id <> %(worker_id)s AND NOT EXISTS (
    SELECT 1 FROM gandy.worker w
    WHERE w.id = r.worker_id AND w.state IN ('running', 'draining')
      AND w.last_seen_at >= (SELECT started_at FROM gandy.worker WHERE id = %(worker_id)s))
LIMIT 1;

-- name: stop_worker
-- A clean end: never while a run of it is open, which is then found by its lease.
UPDATE gandy.worker SET state = 'stopped', last_seen_at = gandy.now(), busy = 0
WHERE id = %(id)s AND state IN ('running', 'draining') AND NOT EXISTS (
    SELECT 1 FROM gandy.metadata_live r WHERE r.train_state = 'in_progress' AND r.worker_id = %(id)s);

-- name: drain_worker
-- It finishes what it has and claims no more.
UPDATE gandy.worker SET state = 'draining' WHERE id = %(id)s AND (%(owner)s::text IS NULL OR owner = %(owner)s) AND state = 'running' RETURNING id, owner;

-- name: live_workers
-- Whose lease holds now: their slots make the default cap, their trains say what can run. A process without slots only
-- holds runs of its own.
SELECT id, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, busy, trains, state
FROM gandy.worker
WHERE owner = %(owner)s AND state IN ('running', 'draining') AND lease_expires_at > gandy.now() AND slots > 0
ORDER BY started_at;

-- name: claim_pending
-- A run that a dispatcher made: the claim is its start.
WITH claim AS MATERIALIZED (SELECT gandy.now() AS now, nextval('gandy.fence') AS fence),
picked AS MATERIALIZED (
    SELECT r.id FROM gandy.metadata_live r
    WHERE r.owner = %(owner)s AND r.train_state = 'pending' AND r.name = ANY(%(trains)s::text[])
    ORDER BY r.rank DESC, r.created_at, r.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), started AS (
    UPDATE gandy.metadata_live r SET
        train_state = 'in_progress', worker_id = %(worker_id)s, fence = claim.fence, start_time = claim.now,
        -- more than a lifetime is no deadline: infinity says so, and what an older version stored must not fail
        deadline_at = claim.now + make_interval(secs => nullif(least(
            coalesce(q.timeout_seconds, m.timeout_seconds, %(default_timeout_seconds)s::float8), 4e9::float8), 4e9::float8))
    FROM claim, picked JOIN gandy.work_queue q ON q.id = picked.id LEFT JOIN gandy.manifest m ON m.id = q.manifest_id
    WHERE r.id = picked.id AND r.bucket = 'infinity' AND r.train_state = 'pending'
    RETURNING r.id, r.fence, r.start_time AS started_at, q.train_name, q.input, q.manifest_id, m.external_id AS manifest,
        q.manifest_group_id, q.due_at, q.attempt, q.scheduled_at, q.failures, q.losses, q.lone_losses, q.max_retries,
        q.is_retried, q.retry_delay_seconds, q.unique_key,
        coalesce(q.timeout_seconds, m.timeout_seconds, %(default_timeout_seconds)s::float8) AS timeout_seconds
), key AS (
    -- one that is locked is being taken over, because its time is over
    DELETE FROM gandy.unique_key WHERE (owner, key) IN (
        SELECT k.owner, k.key FROM started s JOIN gandy.unique_key k ON k.holder_id = s.id
        WHERE s.unique_key IS NOT NULL AND k.held_until = 'start' FOR UPDATE OF k SKIP LOCKED)
)
SELECT * FROM started;
