-- name: queue_rerun
-- A copy of a finished run with its policy but without its manifest, whose guards apply to occurrences only.
INSERT INTO gandy.work_queue (
    owner, train_name, input, input_type_name, manifest_group_id, priority, origin, gate, due_at, scheduled_at,
    max_retries, is_retried, retry_delay_seconds, timeout_seconds, parent_id, created_at)
SELECT r.owner, r.name, coalesce(%(input)s::json, r.input), coalesce(r.input_type_name, m.property_type_name), g.id,
       CASE WHEN r.origin IS NULL THEN g.priority ELSE r.priority END, 'ad_hoc', 'open', now.now, now.now,
       coalesce(r.max_retries, m.max_retries), coalesce(CASE WHEN r.origin IS NOT NULL THEN r.is_retried END, m.is_retried),
       coalesce(r.retry_delay_seconds, m.retry_delay_seconds), coalesce(r.timeout_seconds, m.timeout_seconds), r.id, now.now
FROM gandy.history r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
JOIN gandy.manifest_group g
    ON g.id = coalesce((SELECT k.id FROM gandy.manifest_group k WHERE k.id = r.manifest_group_id AND k.owner = r.owner), %(default_group_id)s),
     (SELECT gandy.now() AS now) now
WHERE r.id = %(id)s AND (%(owner)s::text IS NULL OR r.owner = %(owner)s)
RETURNING id;

-- name: find_reruns
-- Which of these runs there are, and whether they have ended; on PostgreSQL, in every partition.
SELECT id, owner, name AS train, true AS is_over FROM gandy.history
WHERE id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR owner = %(owner)s)
UNION ALL
SELECT id, owner, train_name, false FROM gandy.work_queue
WHERE id = ANY(%(ids)s::bigint[]) AND status = 'dispatched' AND (%(owner)s::text IS NULL OR owner = %(owner)s);
