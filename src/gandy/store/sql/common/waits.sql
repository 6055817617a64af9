-- name: count_ahead
-- The entries of its group that are claimed before an entry: of a higher rank, or older. Counted up to a limit.
SELECT (SELECT count(*) FROM (
            SELECT 1 FROM gandy.work_queue
            WHERE owner = :owner AND manifest_group_id = :group_id AND status = 'queued' AND gate = 'open' AND rank > :rank
            LIMIT :limit) higher)
       + (SELECT count(*) FROM (
            SELECT 1 FROM gandy.work_queue
            WHERE owner = :owner AND manifest_group_id = :group_id AND status = 'queued' AND gate = 'open' AND rank = :rank
              AND id < :id
            LIMIT :limit) older) AS entries;

-- name: load_entry
-- One entry of the queue with its input and policy.
SELECT q.id, q.owner, q.train_name AS train, q.input, m.external_id AS manifest, g.name AS group_name, q.priority, q.status,
       coalesce(q.train_state, q.status) AS state, q.gate, q.reason, q.error, q.origin, q.due_at, q.due_until, q.occurrences, q.attempt, q.scheduled_at, q.created_at,
       q.dispatched_at, q.settled_at, q.dead_letter_id, q.max_retries, q.is_retried, q.retry_delay_seconds,
       q.timeout_seconds, q.failures, q.losses, q.retry_of, q.parent_id
FROM gandy.work_queue q
LEFT JOIN gandy.manifest m ON m.id = q.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = q.manifest_group_id
WHERE q.id = :id AND q.origin <> 'local' AND (:owner::text IS NULL OR q.owner = :owner);

-- name: find_time_of_entry
-- The time that an entry waited for, also if it has become a run since.
SELECT q.scheduled_at FROM gandy.work_queue q
WHERE q.id = :id AND q.origin <> 'local' AND (:owner::text IS NULL OR q.owner = :owner)
UNION ALL
SELECT coalesce(h.scheduled_at, h.due_at) AS scheduled_at FROM gandy.history h
WHERE h.id = :id AND h.due_at IS NOT NULL AND (:owner::text IS NULL OR h.owner = :owner)
LIMIT 1;

-- name: count_held_in_groups
-- Entries that would be ready but for their group, which is switched off or full; each count is limited.
SELECT h.name, h.is_enabled, h.max_active_jobs, h.active, h.entries FROM (
    SELECT g.name, g.is_enabled, g.max_active_jobs,
           (SELECT count(*) FROM (
               SELECT 1 FROM gandy.work_queue r 
               WHERE r.status = 'dispatched' AND r.train_state IN ('pending', 'in_progress') AND r.owner = g.owner
                 AND r.manifest_group_id = g.id LIMIT :limit) a) AS active,
           (SELECT count(*) FROM (
               SELECT 1 FROM gandy.work_queue q
               WHERE q.owner = g.owner AND q.manifest_group_id = g.id AND q.status = 'queued' AND q.gate = 'open'
               LIMIT :limit) e) AS entries
    FROM gandy.manifest_group g
    WHERE g.owner = :owner AND (NOT g.is_enabled OR g.max_active_jobs IS NOT NULL)
    ORDER BY g.name LIMIT :groups) h
WHERE h.entries > 0 AND (NOT h.is_enabled OR h.active >= h.max_active_jobs);

-- name: list_attempts
-- The attempts of one job, before and after a run or an entry, in their order; a dead letter that is requeued goes on.
WITH RECURSIVE
earlier(id, place) AS (
    SELECT :id::bigint, 0
    UNION ALL
    SELECT coalesce(
               (SELECT coalesce(h.retry_of, (SELECT l.metadata_id FROM gandy.dead_letter l WHERE l.id = h.dead_letter_id))
                FROM gandy.history h WHERE h.id = e.id),
               (SELECT coalesce(q.retry_of, (SELECT l.metadata_id FROM gandy.dead_letter l WHERE l.id = q.dead_letter_id))
                FROM gandy.work_queue q WHERE q.id = e.id)), e.place - 1
    FROM earlier e WHERE e.id IS NOT NULL AND e.place > 0 - :most
),
later(id, place) AS (
    SELECT :id::bigint, 0
    UNION ALL
    SELECT coalesce(
               (SELECT min(h.id) FROM gandy.history h WHERE h.retry_of = e.id),
               (SELECT min(q.id) FROM gandy.work_queue q WHERE q.retry_of = e.id),
               (SELECT max(l.retry_metadata_id) FROM gandy.dead_letter l WHERE l.metadata_id = e.id),
               (SELECT min(q.id) FROM gandy.work_queue q
                WHERE q.status IN ('queued', 'waiting')
                  AND q.dead_letter_id = (SELECT max(l.id) FROM gandy.dead_letter l WHERE l.metadata_id = e.id))), e.place + 1
    FROM later e WHERE e.id IS NOT NULL AND e.place < :most
),
found(id, place) AS (
    SELECT id, place FROM earlier WHERE id IS NOT NULL UNION SELECT id, place FROM later WHERE id IS NOT NULL)
SELECT a.id, a.state, a.attempt, a.at, a.end_time, a.failure_exception, a.dead_letter_id, a.is_run FROM (
    SELECT f.place, h.id, h.owner, h.train_state AS state, h.attempt, h.start_time AS at, h.end_time, h.failure_exception,
           h.dead_letter_id, true AS is_run
    FROM found f JOIN gandy.history h ON h.id = f.id
    UNION ALL
    SELECT f.place, q.id, q.owner, coalesce(q.train_state, q.status), q.attempt, coalesce(q.start_time, q.scheduled_at),
           NULL, NULL, q.dead_letter_id, q.train_state IS NOT NULL
    FROM found f JOIN gandy.work_queue q ON q.id = f.id) a
WHERE (:owner::text IS NULL OR a.owner = :owner)
ORDER BY a.place;
