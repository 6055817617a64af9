-- name: park_manifests
-- One letter per manifest, with the run that failed last and its input; a unique index refuses a second one.
INSERT INTO dead_letter (
    owner, manifest_id, manifest_group_id, train_name, input, input_type_name, metadata_id, due_at, attempt, priority,
    reason, dead_lettered_at)
SELECT m.owner, m.id, m.manifest_group_id, m.name, coalesce(r.input, m.properties), m.property_type_name,
       coalesce(m.last_failed_run_id, m.last_run_id, 0), r.due_at, coalesce(r.attempt, 1), m.priority,
       'failed ' || m.failure_count || CASE m.failure_count WHEN 1 THEN ' attempt' ELSE ' attempts' END || ' of '
           || max(1, m.max_retries)
           || coalesce(': ' || r.failure_exception || ': ' || r.failure_reason, ''),
       gandy_now()
FROM manifest m LEFT JOIN history r ON r.id = m.last_failed_run_id
WHERE m.id IN (SELECT value FROM json_each(:ids)) AND m.is_retried AND m.failure_count >= max(1, m.max_retries)
ON CONFLICT DO NOTHING
RETURNING id, manifest_id, metadata_id AS run_id, train_name AS train, attempt, reason,
    (SELECT external_id FROM manifest m WHERE m.id = manifest_id) AS manifest;

-- name: read_parked
-- Letters that were just written, with their manifests.
SELECT l.id, l.manifest_id, m.external_id AS manifest, l.metadata_id AS run_id, l.train_name AS train, l.attempt, l.reason
FROM dead_letter l LEFT JOIN manifest m ON m.id = l.manifest_id
WHERE l.id IN (SELECT value FROM json_each(:ids)) ORDER BY l.id;
