-- name: register_worker
-- The id is random and new with every start: several workers can share a host name.
INSERT INTO gandy.worker (id, owner, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, trains)
SELECT %(id)s, %(owner)s, %(host)s, %(pid)s, %(version)s, now, now, now + make_interval(secs => %(lease_seconds)s::float8),
       %(slots)s, %(trains)s::text[]
FROM gandy.now() AS now;

-- name: renew_lease
-- One row for all runs of a worker; an expired lease is left to renew_late.
UPDATE gandy.worker SET last_seen_at = gandy.now(), busy = %(busy)s,
    lease_expires_at = gandy.now() + make_interval(secs => %(lease_seconds)s::float8),
    longest_stall_seconds = greatest(longest_stall_seconds, %(stall_seconds)s::float8),
    stalled_junction = CASE WHEN %(stall_seconds)s::float8 > longest_stall_seconds THEN %(stalled_junction)s ELSE stalled_junction END
WHERE id = %(id)s AND state IN ('running', 'draining') AND lease_expires_at > gandy.now()
RETURNING state;

-- name: renew_late
-- The late worker and the reaper compete for the row lock: the first one decides.
UPDATE gandy.worker SET last_seen_at = gandy.now(),
    lease_expires_at = gandy.now() + make_interval(secs => %(lease_seconds)s::float8)
WHERE id = %(id)s AND state IN ('running', 'draining') AND lease_expires_at <= gandy.now()
RETURNING state, owner, trains;

-- name: hold_worker
-- Locked before all else in a claim: a reaper marks the worker lost before the claim, or skips it until the claim has ended.
-- KEY SHARE, because the worker's own lease renewal must not wait for the claim.
SELECT state FROM gandy.worker WHERE id = %(id)s FOR KEY SHARE;

-- name: owned_runs
-- The runs that the worker should have; reads only live runs.
SELECT r.id FROM gandy.work_queue r
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.worker_id = %(worker_id)s;

-- name: find_unheard_run
-- A run whose worker is gone or has not renewed since this worker started; reads only live runs.
SELECT r.id FROM gandy.work_queue r
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.owner = %(owner)s AND r.worker_id <> %(worker_id)s AND NOT EXISTS (
    SELECT 1 FROM gandy.worker w
    WHERE w.id = r.worker_id AND w.state IN ('running', 'draining')
      AND w.last_seen_at >= (SELECT started_at FROM gandy.worker WHERE id = %(worker_id)s))
LIMIT 1;

-- name: stop_worker
-- A clean shutdown; refused while the worker has a run in progress, which is found later by the expired lease.
UPDATE gandy.worker SET state = 'stopped', last_seen_at = gandy.now(), busy = 0
WHERE id = %(id)s AND state IN ('running', 'draining') AND NOT EXISTS (
    SELECT 1 FROM gandy.work_queue r WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.worker_id = %(id)s);

-- name: claim_pending
-- Pending runs, which a dispatcher has made: the claim starts them.
WITH claim AS MATERIALIZED (SELECT gandy.now() AS now, nextval('gandy.fence') AS fence),
picked AS MATERIALIZED (
    SELECT r.id, m.external_id AS manifest, m.timeout_seconds FROM (
        SELECT id, manifest_id FROM gandy.work_queue
        WHERE owner = %(owner)s AND train_state = 'pending' AND train_name = ANY(%(trains)s::text[])
        ORDER BY claim_rank DESC, dispatched_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED) r
    LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
), started AS (
    UPDATE gandy.work_queue q SET
        train_state = 'in_progress', worker_id = %(worker_id)s, fence = claim.fence, start_time = claim.now, claim_rank = NULL,
        -- more than about 126 years means no deadline (null); a larger value from an older version would overflow
        deadline_at = claim.now + make_interval(secs => nullif(least(coalesce(
            q.timeout_seconds, picked.timeout_seconds, %(default_timeout_seconds)s::float8), 4e9::float8), 4e9::float8))
    FROM claim, picked
    WHERE q.id = picked.id AND q.train_state = 'pending'
    RETURNING q.id, q.fence, q.start_time AS started_at, q.train_name, q.input, q.manifest_id, picked.manifest,
        q.manifest_group_id, q.due_at, q.attempt, q.scheduled_at, q.failures, q.losses, q.lone_losses, q.max_retries,
        q.is_retried, q.retry_delay_seconds, q.unique_key,
        coalesce(q.timeout_seconds, picked.timeout_seconds, %(default_timeout_seconds)s::float8) AS timeout_seconds
), key AS (
    -- skips a locked key: it has expired and is being taken over
    DELETE FROM gandy.unique_key WHERE (owner, key) IN (
        SELECT k.owner, k.key FROM started s JOIN gandy.unique_key k ON k.holder_id = s.id
        WHERE s.unique_key IS NOT NULL AND k.held_until = 'start' FOR UPDATE OF k SKIP LOCKED)
)
SELECT * FROM started;
