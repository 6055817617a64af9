-- name: take_undelivered
-- Pending runs that were not delivered, or whose delivery is to be retried now; reserved against other processes.
UPDATE gandy.work_queue r SET deliver_after = gandy.now() + make_interval(secs => %(reserve_seconds)s::float8)
WHERE r.train_state = 'pending' AND r.id = ANY(ARRAY(
    SELECT id FROM gandy.work_queue
    WHERE owner = %(owner)s AND train_state = 'pending' AND coalesce(deliver_after, '-infinity') <= gandy.now()
    ORDER BY claim_rank DESC, dispatched_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING r.id, r.external_id::text AS external_id, r.train_name AS train, r.input, r.attempt, r.delivery_attempts, r.claim_rank AS rank;

-- name: note_deliveries
-- A failed delivery is not a failed run: it is retried later, and does not count as an attempt.
UPDATE gandy.work_queue r SET
    delivery_attempts = r.delivery_attempts + 1, delivery_error = d.error,
    deliver_after = CASE WHEN d.error IS NULL THEN 'infinity' ELSE gandy.now() + make_interval(secs => d.delay_seconds) END
FROM unnest(%(id)s::bigint[], %(error)s::text[], %(delay_seconds)s::float8[]) AS d(id, error, delay_seconds)
WHERE r.id = d.id AND r.train_state = 'pending'
RETURNING r.id;

-- name: claim_delivered
-- The claim starts the run; a second delivery of the same run has no effect.
WITH claim AS MATERIALIZED (SELECT gandy.now() AS now, nextval('gandy.fence') AS fence),
started AS (
    UPDATE gandy.work_queue q SET
        train_state = 'in_progress', worker_id = %(worker_id)s, fence = claim.fence, start_time = claim.now, claim_rank = NULL,
        -- more than about 126 years means no deadline (null); a larger value from an older version would overflow
        deadline_at = claim.now + make_interval(secs => nullif(least(coalesce(
            q.timeout_seconds, (SELECT m.timeout_seconds FROM gandy.manifest m WHERE m.id = q.manifest_id),
            %(default_timeout_seconds)s::float8), 4e9::float8), 4e9::float8))
    FROM claim
    WHERE q.id = %(id)s AND q.train_state = 'pending'
    RETURNING q.id, q.fence, q.start_time AS started_at, q.train_name, q.input, q.manifest_id,
        q.manifest_group_id, q.due_at, q.attempt, q.scheduled_at, q.failures, q.losses, q.lone_losses, q.max_retries,
        q.is_retried, q.retry_delay_seconds, q.unique_key, q.timeout_seconds
), key AS (
    -- skips a locked key: it has expired and is being taken over
    DELETE FROM gandy.unique_key WHERE (owner, key) IN (
        SELECT k.owner, k.key FROM started s JOIN gandy.unique_key k ON k.holder_id = s.id
        WHERE s.unique_key IS NOT NULL AND k.held_until = 'start'
        FOR UPDATE OF k SKIP LOCKED)
)
SELECT s.id, s.fence, s.started_at, s.train_name, s.input, s.manifest_id, m.external_id AS manifest, s.manifest_group_id,
       s.due_at, s.attempt, s.scheduled_at, s.failures, s.losses, s.lone_losses, s.max_retries, s.is_retried,
       s.retry_delay_seconds, s.unique_key,
       coalesce(s.timeout_seconds, m.timeout_seconds, %(default_timeout_seconds)s::float8) AS timeout_seconds
FROM started s LEFT JOIN gandy.manifest m ON m.id = s.manifest_id;
