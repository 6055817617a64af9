-- name: park_manifests
-- One letter per manifest, with the run that failed last and its input; a unique index refuses a second one.
INSERT INTO gandy.dead_letter (
    owner, manifest_id, manifest_group_id, train_name, input, input_type_name, metadata_id, due_at, attempt, priority,
    reason, dead_lettered_at)
SELECT m.owner, m.id, m.manifest_group_id, m.name, coalesce(r.input, m.properties), m.property_type_name,
       coalesce(m.last_failed_run_id, m.last_run_id, 0), r.due_at, coalesce(r.attempt, 1), m.priority,
       'failed ' || m.failure_count || CASE m.failure_count WHEN 1 THEN ' attempt' ELSE ' attempts' END || ' of '
           || greatest(1, m.max_retries)
           || coalesce(': ' || r.failure_exception || ': ' || r.failure_reason, ''),
       gandy.now()
FROM gandy.manifest m
LEFT JOIN LATERAL (
    SELECT input, due_at, attempt, failure_exception, failure_reason
    FROM gandy.history WHERE id = m.last_failed_run_id LIMIT 1) r ON true
WHERE m.id = ANY(%(ids)s::bigint[]) AND m.is_retried AND m.failure_count >= greatest(1, m.max_retries)
ORDER BY m.id
ON CONFLICT DO NOTHING
RETURNING id, manifest_id, metadata_id AS run_id, train_name AS train, attempt, reason,
    (SELECT external_id FROM gandy.manifest m WHERE m.id = manifest_id) AS manifest;

-- name: read_parked
-- Letters that were just written, with their manifests.
SELECT l.id, l.manifest_id, m.external_id AS manifest, l.metadata_id AS run_id, l.train_name AS train, l.attempt, l.reason
FROM gandy.dead_letter l LEFT JOIN gandy.manifest m ON m.id = l.manifest_id
WHERE l.id = ANY(%(ids)s::bigint[]) ORDER BY l.id;
