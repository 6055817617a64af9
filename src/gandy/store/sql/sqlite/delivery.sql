-- name: take_undelivered
-- Pending runs that were not delivered, or whose delivery is to be retried now; reserved against other processes.
UPDATE work_queue SET deliver_after = gandy_later(:reserve_seconds)
WHERE id IN (SELECT r.id FROM work_queue r
             WHERE r.owner = :owner AND r.train_state = 'pending'
               AND (r.deliver_after IS NULL OR r.deliver_after <= gandy_now())
             ORDER BY r.claim_rank DESC, r.dispatched_at, r.id LIMIT :limit)
RETURNING id, external_id, train_name AS train, input, attempt, delivery_attempts, claim_rank AS rank;

-- name: note_deliveries
-- A failed delivery is not a failed run: it is retried later, and does not count as an attempt.
UPDATE work_queue SET
    delivery_attempts = delivery_attempts + 1, delivery_error = :error,
    deliver_after = CASE WHEN :error IS NULL THEN '9999-12-31T00:00:00.000000Z' ELSE gandy_later(:delay_seconds) END
WHERE id = :id AND train_state = 'pending'
RETURNING id;

-- name: claim_delivered
-- The claim starts the run; a second delivery of the same run has no effect.
UPDATE sequence SET value = value + 1 WHERE name = 'fence';
UPDATE work_queue SET train_state = 'in_progress', worker_id = :worker_id, start_time = gandy_now(), claim_rank = NULL,
    fence = (SELECT value FROM sequence WHERE name = 'fence'),
    -- more than about 126 years means no deadline (null); a larger value from an older version would overflow
    deadline_at = gandy_later(nullif(min(coalesce(
        timeout_seconds, (SELECT m.timeout_seconds FROM manifest m WHERE m.id = work_queue.manifest_id),
        :default_timeout_seconds), 4e9), 4e9))
WHERE id = :id AND train_state = 'pending';
DELETE FROM unique_key WHERE held_until = 'start' AND holder_id IN (
    SELECT id FROM work_queue WHERE id = :id AND train_state = 'in_progress'
    AND fence = (SELECT value FROM sequence WHERE name = 'fence'));
SELECT q.id, q.fence, q.start_time AS started_at, q.train_name, q.input, q.manifest_id, m.external_id AS manifest,
    q.manifest_group_id, q.due_at, q.attempt, q.scheduled_at, q.failures, q.losses, q.lone_losses, q.max_retries,
    q.is_retried, q.retry_delay_seconds, q.unique_key,
    coalesce(q.timeout_seconds, m.timeout_seconds, :default_timeout_seconds) AS timeout_seconds
FROM work_queue q LEFT JOIN manifest m ON m.id = q.manifest_id
WHERE q.id = :id AND q.train_state = 'in_progress' AND q.fence = (SELECT value FROM sequence WHERE name = 'fence');
