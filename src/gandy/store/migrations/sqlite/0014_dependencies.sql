-- compatible_from: 14
-- A dependent follows one parent or several, after their success, failure or end. Stop all servers before this migration;
-- older code is refused afterwards, because it would not see the edges.

-- Counters that only grow. failure_count is another thing: the failed attempts since the last success.
ALTER TABLE manifest ADD COLUMN final_failure_count INTEGER NOT NULL DEFAULT 0;  -- occurrences whose last attempt failed
ALTER TABLE manifest ADD COLUMN end_count INTEGER NOT NULL DEFAULT 0;  -- those, the completed and the cancelled ones
ALTER TABLE manifest ADD COLUMN last_final_failure_id INTEGER;  -- the last run in final_failure_count
UPDATE manifest SET end_count = success_count WHERE success_count > 0;

CREATE TABLE manifest_edge (
    child_id         INTEGER NOT NULL REFERENCES manifest ON DELETE CASCADE,
    parent_id        INTEGER NOT NULL REFERENCES manifest,
    seen             INTEGER NOT NULL DEFAULT 0,  -- the parent's count of this kind when the child was last queued
    place            INTEGER NOT NULL DEFAULT 0,  -- in the order of the declaration
    kind             TEXT NOT NULL CHECK (kind IN ('success', 'failure', 'end', 'activation')),
    is_output_passed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (child_id, parent_id)
) WITHOUT ROWID;
CREATE INDEX ix_manifest_edge_parent ON manifest_edge (parent_id, kind, child_id);

-- The newest output of a manifest whose dependent takes it as its input, where no cleanup reaches it.
CREATE TABLE manifest_output (
    manifest_id   INTEGER PRIMARY KEY REFERENCES manifest ON DELETE CASCADE,
    success_count INTEGER NOT NULL,  -- of the manifest, with this success
    output        TEXT NOT NULL CHECK (json_valid(output))
);

INSERT INTO manifest_edge (child_id, parent_id, kind, seen)
SELECT id, depends_on_manifest_id, CASE schedule_type WHEN 'dependent' THEN 'success' ELSE 'activation' END,
       CASE schedule_type WHEN 'dependent' THEN parent_success_seen ELSE 0 END
FROM manifest
WHERE schedule_type IN ('dependent', 'dormant_dependent') AND depends_on_manifest_id IS NOT NULL;

-- Each edge with the state of its parent: due where ended > seen.
CREATE VIEW manifest_dependency AS
SELECT e.child_id, e.parent_id, e.place, e.kind, e.is_output_passed, e.seen,
       CASE WHEN e.is_output_passed THEN coalesce(o.success_count, 0)
            WHEN e.kind = 'success' THEN p.success_count
            WHEN e.kind = 'failure' THEN p.final_failure_count
            WHEN e.kind = 'end' THEN p.end_count
            ELSE 0 END AS ended,
       p.external_id AS parent, p.owner, p.name AS train, p.is_enabled, p.orphaned_at, o.output
FROM manifest_edge e
JOIN manifest p ON p.id = e.parent_id
LEFT JOIN manifest_output o ON e.is_output_passed AND o.manifest_id = e.parent_id;

DROP VIEW manifest_dispatch;
CREATE VIEW manifest_dispatch AS
SELECT m.id, m.external_id, m.owner, m.name AS train, m.manifest_group_id AS group_id,
       m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.scheduled_at,
       m.next_scheduled_run, m.next_look_at, m.priority, g.priority AS group_priority,
       m.exclusions, m.variance_seconds, m.misfire_policy, m.misfire_threshold_seconds,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.orphaned_at IS NOT NULL AS is_orphaned,
       coalesce(max(m.enabled_at, g.enabled_at), m.enabled_at, g.enabled_at) AS enabled_at, m.last_skip_reason,
       m.failure_count, m.success_count, m.max_retries, m.is_retried,
       EXISTS (SELECT 1 FROM dead_letter l
               WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS has_awaiting_dead_letter,
       (SELECT q.origin FROM work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued') AS queued_origin,
       m.active_run_id IS NOT NULL AS has_active_execution,
       m.last_successful_run_id IS NOT NULL AS has_successful_metadata, m.completed_at,
       CASE WHEN m.schedule_type = 'dependent' THEN coalesce((
           SELECT min(d.ended > d.seen) FROM manifest_dependency d WHERE d.child_id = m.id), 0) ELSE 0 END AS has_ended_parents,
       CASE WHEN m.schedule_type = 'dependent' THEN coalesce((
           SELECT min(d.is_enabled) FROM manifest_dependency d WHERE d.child_id = m.id), 1) ELSE 1 END AS has_enabled_parents,
       '' AS version,  -- there is only one writer at a time: no version check is needed
       m.created_at, m.served_spans
FROM manifest m
JOIN manifest_group g ON g.id = m.manifest_group_id;

ALTER TABLE manifest DROP COLUMN parent_success_seen;
