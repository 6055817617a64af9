-- name: list_entries
-- The newest first; ids are given in the order of queueing.
SELECT q.id, q.owner, q.train_name AS train, m.external_id AS manifest, g.name AS group_name, q.priority, q.status, q.gate,
       q.reason, q.error, q.origin, q.due_at, q.due_until, q.occurrences, q.attempt, q.scheduled_at, q.created_at,
       q.dispatched_at, q.dead_letter_id
FROM gandy.work_queue q LEFT JOIN gandy.manifest m ON m.id = q.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = q.manifest_group_id
WHERE (%(owner)s::text IS NULL OR q.owner = %(owner)s) AND (%(status)s::text IS NULL OR q.status = %(status)s)
  AND (%(gate)s::text IS NULL OR q.gate = %(gate)s AND q.status = 'queued')
  AND (%(train)s::text IS NULL OR q.train_name = %(train)s) AND (%(group_name)s::text IS NULL OR g.name = %(group_name)s)
  AND (%(before)s::bigint IS NULL OR q.id < %(before)s)
ORDER BY q.id DESC LIMIT %(limit)s;

-- name: queue_rerun
-- A copy of a run that is over, under its policy but outside its manifest, whose guards are about occurrences.
INSERT INTO gandy.work_queue (
    owner, train_name, input, input_type_name, manifest_group_id, priority, origin, gate, due_at, scheduled_at,
    max_retries, is_retried, retry_delay_seconds, timeout_seconds, parent_id, created_at)
SELECT r.owner, r.name, coalesce(%(input)s::json, r.input), coalesce(q.input_type_name, m.property_type_name), g.id,
       coalesce(q.priority, m.priority, g.priority), 'ad_hoc', 'open', now.now, now.now,
       coalesce(q.max_retries, m.max_retries), coalesce(q.is_retried, m.is_retried),
       coalesce(q.retry_delay_seconds, m.retry_delay_seconds), coalesce(q.timeout_seconds, m.timeout_seconds), r.id, now.now
FROM gandy.metadata r
LEFT JOIN gandy.work_queue q ON q.id = r.id
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
JOIN gandy.manifest_group g ON g.id = coalesce(r.manifest_group_id, %(default_group_id)s),
     (SELECT gandy.now() AS now) now
WHERE r.id = %(id)s AND r.train_state IN ('completed', 'failed', 'cancelled')
RETURNING id;
