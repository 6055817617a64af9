-- name: queue_rerun
-- A copy of a finished run with its policy but without its manifest, whose guards apply to occurrences only.
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
JOIN manifest_group g
    ON g.id = coalesce((SELECT k.id FROM manifest_group k WHERE k.id = r.manifest_group_id AND k.owner = r.owner), :default_group_id)
WHERE r.id = :id AND (:owner IS NULL OR r.owner = :owner) AND r.train_state IN ('completed', 'failed', 'cancelled')
RETURNING id;
