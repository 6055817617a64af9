-- name: record_administrative_run
-- Inserted as finished, and kept only briefly: pruned by row, not with a day's partition.
INSERT INTO gandy.history (
    bucket, owner, name, train_state, output, created_at, start_time, end_time, keep_until, failure_junction,
    failure_exception, failure_reason, stack_trace, junctions)
SELECT '-infinity', %(owner)s, %(name)s, %(train_state)s, %(output)s::json, started, started, now,
       now + make_interval(secs => %(keep_seconds)s::float8), %(failure_junction)s, %(failure_exception)s,
       %(failure_reason)s, %(stack_trace)s, %(junctions)s::json
FROM (SELECT gandy.now() AS now, gandy.now() - make_interval(secs => %(took_seconds)s::float8) AS started) t
RETURNING id;

-- name: record_audit_subjects
-- What an entry of the audit trail is about.
INSERT INTO gandy.audit_subject (owner, subject, audit_id)
SELECT %(owner)s, s.subject, %(audit_id)s FROM unnest(%(subject)s::text[]) AS s(subject)
ON CONFLICT DO NOTHING;

-- name: find_switchers
-- Who switched off manifests and groups: the latest deed that enabled or disabled each, if it disabled.
SELECT w.kind, w.name, d.actor FROM unnest(%(kind)s::text[], %(name)s::text[]) AS w(kind, name)
CROSS JOIN LATERAL (
    SELECT n.actor, n.action, n.is_enabled FROM (
        SELECT a.id, a.actor, a.action, a.detail ->> 'is_enabled' AS is_enabled
        FROM gandy.audit_subject s JOIN gandy.audit a ON a.id = s.audit_id
        WHERE s.owner = %(owner)s AND s.subject = w.name ORDER BY s.audit_id DESC LIMIT 100) n
    WHERE w.kind = 'manifest' AND n.action IN ('disable manifest', 'enable manifest', 'reset manifest')
       OR w.kind = 'group' AND (n.action = 'reset group' OR n.action = 'set group' AND n.is_enabled IS NOT NULL)
    ORDER BY n.id DESC LIMIT 1) d
WHERE d.action = 'disable manifest' OR d.action = 'set group' AND d.is_enabled = 'false';
