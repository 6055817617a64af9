-- name: take_undelivered
-- Pending runs that were not delivered, or whose delivery is to be retried now; reserved against other processes.
UPDATE gandy.metadata_live r SET deliver_after = gandy.now() + make_interval(secs => %(reserve_seconds)s::float8)
WHERE r.bucket = 'infinity' AND r.train_state = 'pending' AND r.id = ANY(ARRAY(
    SELECT id FROM gandy.metadata_live
    WHERE owner = %(owner)s AND train_state = 'pending' AND coalesce(deliver_after, '-infinity') <= gandy.now()
    ORDER BY rank DESC, created_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING r.id, r.external_id::text AS external_id, r.name AS train, r.input, r.attempt, r.delivery_attempts, r.rank;

-- name: count_pending
-- Runs that were dispatched and have not begun.
SELECT count(*) AS pending FROM (
    SELECT 1 FROM gandy.metadata_live WHERE owner = %(owner)s AND train_state = 'pending' LIMIT %(limit)s) waiting;

-- name: note_deliveries
-- A failed delivery is not a failed run: it is retried later, and does not count as an attempt.
UPDATE gandy.metadata_live r SET
    delivery_attempts = r.delivery_attempts + 1, delivery_error = d.error,
    deliver_after = CASE WHEN d.error IS NULL THEN 'infinity' ELSE gandy.now() + make_interval(secs => d.delay_seconds) END
FROM unnest(%(id)s::bigint[], %(error)s::text[], %(delay_seconds)s::float8[]) AS d(id, error, delay_seconds)
WHERE r.id = d.id AND r.train_state = 'pending'
RETURNING r.id;

-- name: claim_delivered
-- The claim starts the run; a second delivery of the same run has no effect.
WITH claim AS MATERIALIZED (SELECT gandy.now() AS now, nextval('gandy.fence') AS fence),
started AS (
    UPDATE gandy.metadata_live r SET
        train_state = 'in_progress', worker_id = %(worker_id)s, fence = claim.fence, start_time = claim.now,
        -- more than about 126 years means no deadline (null); a larger value from an older version would overflow
        deadline_at = claim.now + make_interval(secs => nullif(least(
            coalesce(q.timeout_seconds, m.timeout_seconds, %(default_timeout_seconds)s::float8), 4e9::float8), 4e9::float8))
    FROM claim, gandy.work_queue q LEFT JOIN gandy.manifest m ON m.id = q.manifest_id
    WHERE r.id = %(id)s AND q.id = r.id AND r.train_state = 'pending'
    RETURNING r.id, r.fence, r.start_time AS started_at, q.train_name, q.input, q.manifest_id, m.external_id AS manifest,
        q.manifest_group_id, q.due_at, q.attempt, q.scheduled_at, q.failures, q.losses, q.lone_losses, q.max_retries,
        q.is_retried, q.retry_delay_seconds, q.unique_key,
        coalesce(q.timeout_seconds, m.timeout_seconds, %(default_timeout_seconds)s::float8) AS timeout_seconds
), key AS (
    -- skips a locked key: it has expired and is being taken over
    DELETE FROM gandy.unique_key WHERE (owner, key) IN (
        SELECT k.owner, k.key FROM started s JOIN gandy.unique_key k ON k.holder_id = s.id
        WHERE s.unique_key IS NOT NULL AND k.held_until = 'start'
        FOR UPDATE OF k SKIP LOCKED)
)
SELECT * FROM started;
