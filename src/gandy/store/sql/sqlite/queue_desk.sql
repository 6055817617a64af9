-- name: list_entries
-- The newest first; ids are given in the order of queueing.
SELECT q.id, q.owner, q.train_name AS train, m.external_id AS manifest, g.name AS group_name, q.priority, q.status, q.gate,
       q.reason, q.error, q.origin, q.due_at, q.due_until, q.occurrences, q.attempt, q.scheduled_at, q.created_at,
       q.dispatched_at, q.dead_letter_id
FROM work_queue q LEFT JOIN manifest m ON m.id = q.manifest_id LEFT JOIN manifest_group g ON g.id = q.manifest_group_id
WHERE (:owner IS NULL OR q.owner = :owner) AND (:status IS NULL OR q.status = :status)
  AND (:gate IS NULL OR q.gate = :gate AND q.status = 'queued')
  AND (:train IS NULL OR q.train_name = :train) AND (:group_name IS NULL OR g.name = :group_name)
  AND (:before IS NULL OR q.id < :before)
ORDER BY q.id DESC LIMIT :limit;

-- name: queue_rerun
-- A copy of a run that is over, under its policy but outside its manifest, whose guards are about occurrences.
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, manifest_group_id, priority, origin, gate, due_at, scheduled_at,
    max_retries, is_retried, retry_delay_seconds, timeout_seconds, parent_id, created_at)
SELECT r.owner, r.name, coalesce(:input, r.input), coalesce(q.input_type_name, m.property_type_name), g.id,
       coalesce(q.priority, m.priority, g.priority), 'ad_hoc', 'open', gandy_now(), gandy_now(),
       coalesce(q.max_retries, m.max_retries), coalesce(q.is_retried, m.is_retried),
       coalesce(q.retry_delay_seconds, m.retry_delay_seconds), coalesce(q.timeout_seconds, m.timeout_seconds), r.id, gandy_now()
FROM metadata r
LEFT JOIN work_queue q ON q.id = r.id
LEFT JOIN manifest m ON m.id = r.manifest_id
JOIN manifest_group g ON g.id = coalesce(r.manifest_group_id, :default_group_id)
WHERE r.id = :id AND r.train_state IN ('completed', 'failed', 'cancelled')
RETURNING id;
