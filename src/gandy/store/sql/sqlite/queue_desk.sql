-- name: queue_rerun
-- A copy of a finished run with its policy but without its manifest, whose guards apply to occurrences only.
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, manifest_group_id, priority, origin, gate, due_at, scheduled_at,
    max_retries, is_retried, retry_delay_seconds, timeout_seconds, parent_id, created_at)
SELECT r.owner, r.name, coalesce(:input, r.input), coalesce(r.input_type_name, m.property_type_name), g.id,
       CASE WHEN r.origin IS NULL THEN g.priority ELSE r.priority END, 'ad_hoc', 'open', gandy_now(), gandy_now(),
       coalesce(r.max_retries, m.max_retries), coalesce(CASE WHEN r.origin IS NOT NULL THEN r.is_retried END, m.is_retried),
       coalesce(r.retry_delay_seconds, m.retry_delay_seconds), coalesce(r.timeout_seconds, m.timeout_seconds), r.id, gandy_now()
FROM history r
LEFT JOIN manifest m ON m.id = r.manifest_id
JOIN manifest_group g
    ON g.id = coalesce((SELECT k.id FROM manifest_group k WHERE k.id = r.manifest_group_id AND k.owner = r.owner), :default_group_id)
WHERE r.id = :id AND (:owner IS NULL OR r.owner = :owner)
RETURNING id;

-- name: find_reruns
-- Which of these runs there are, and whether they have ended.
SELECT id, owner, name AS train, 1 AS is_over FROM history
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner)
UNION ALL
SELECT id, owner, train_name, 0 FROM work_queue
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'dispatched' AND (:owner IS NULL OR owner = :owner);
