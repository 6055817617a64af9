-- name: record_administrative_run
-- Inserted as finished, and kept only briefly: pruned by row, not with a day's partition.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'work_queue';
INSERT INTO history (
    id, owner, name, train_state, output, created_at, start_time, end_time, keep_until, failure_junction,
    failure_exception, failure_reason, stack_trace, junctions)
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'work_queue'), :owner, :name, :train_state, :output,
       gandy_later(-:took_seconds), gandy_later(-:took_seconds), gandy_now(), gandy_later(:keep_seconds),
       :failure_junction, :failure_exception, :failure_reason, :stack_trace, :junctions
RETURNING id;

-- name: record_audit_subjects
-- What an entry of the audit trail is about.
INSERT INTO audit_subject (owner, subject, audit_id) VALUES (:owner, :subject, :audit_id)
ON CONFLICT DO NOTHING;

-- name: find_switchers
-- Who switched off manifests and groups: the latest deed that enabled or disabled each, if it disabled.
SELECT latest.kind, latest.name, latest.actor FROM (
    SELECT :kind AS kind, :name AS name, n.actor, n.action, n.enabled FROM (
        SELECT a.id, a.actor, a.action, json_extract(a.detail, '$.is_enabled') AS enabled
        FROM audit_subject s JOIN audit a ON a.id = s.audit_id
        WHERE s.owner = :owner AND s.subject = :name ORDER BY s.audit_id DESC LIMIT 100) n
    WHERE :kind = 'manifest' AND n.action IN ('disable manifest', 'enable manifest', 'reset manifest')
       OR :kind = 'group' AND (n.action = 'reset group' OR n.action = 'set group' AND n.enabled IS NOT NULL)
    ORDER BY n.id DESC LIMIT 1) latest
WHERE latest.action = 'disable manifest' OR latest.action = 'set group' AND latest.enabled = 0;
