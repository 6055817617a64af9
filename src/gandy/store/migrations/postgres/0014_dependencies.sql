-- compatible_from: 14
-- A dependent follows one parent or several, after their success, failure or end. Stop all servers before this migration;
-- older code is refused afterwards, because it would not see the edges.

-- Counters that only grow. failure_count is another thing: the failed attempts since the last success.
ALTER TABLE gandy.manifest ADD COLUMN final_failure_count bigint NOT NULL DEFAULT 0;  -- occurrences whose last attempt failed
ALTER TABLE gandy.manifest ADD COLUMN end_count bigint NOT NULL DEFAULT 0;  -- those, the completed and the cancelled ones
ALTER TABLE gandy.manifest ADD COLUMN last_final_failure_id bigint;  -- the last run in final_failure_count
UPDATE gandy.manifest SET end_count = success_count WHERE success_count > 0;

CREATE TABLE gandy.manifest_edge (
    child_id         bigint NOT NULL REFERENCES gandy.manifest ON DELETE CASCADE,
    parent_id        bigint NOT NULL REFERENCES gandy.manifest,
    seen             bigint NOT NULL DEFAULT 0,   -- the parent's count of this kind when the child was last queued
    place            smallint NOT NULL DEFAULT 0, -- in the order of the declaration
    kind             text NOT NULL CHECK (kind IN ('success', 'failure', 'end', 'activation')),
    is_output_passed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (child_id, parent_id)
) WITH (fillfactor = 80);
CREATE INDEX ix_manifest_edge_parent ON gandy.manifest_edge (parent_id, kind, child_id);

-- The newest output of a manifest whose dependent takes it as its input, where no cleanup reaches it.
CREATE TABLE gandy.manifest_output (
    manifest_id   bigint PRIMARY KEY REFERENCES gandy.manifest ON DELETE CASCADE,
    success_count bigint NOT NULL,  -- of the manifest, with this success
    output        json NOT NULL
);

INSERT INTO gandy.manifest_edge (child_id, parent_id, kind, seen)
SELECT id, depends_on_manifest_id, CASE schedule_type WHEN 'dependent' THEN 'success' ELSE 'activation' END,
       CASE schedule_type WHEN 'dependent' THEN parent_success_seen ELSE 0 END
FROM gandy.manifest
WHERE schedule_type IN ('dependent', 'dormant_dependent') AND depends_on_manifest_id IS NOT NULL;

-- Each edge with the state of its parent: due where ended > seen. LATERAL forces a probe: a plan for many rows must not read
-- all manifests to find a few parents.
CREATE VIEW gandy.manifest_dependency AS
SELECT e.child_id, e.parent_id, e.place, e.kind, e.is_output_passed, e.seen,
       CASE WHEN e.is_output_passed THEN coalesce(o.success_count, 0)
            WHEN e.kind = 'success' THEN p.success_count
            WHEN e.kind = 'failure' THEN p.final_failure_count
            WHEN e.kind = 'end' THEN p.end_count
            ELSE 0 END AS ended,
       p.external_id AS parent, p.owner, p.name AS train, p.is_enabled, p.orphaned_at, o.output
FROM gandy.manifest_edge e
CROSS JOIN LATERAL (
    SELECT external_id, owner, name, is_enabled, orphaned_at, success_count, final_failure_count, end_count
    FROM gandy.manifest WHERE id = e.parent_id LIMIT 1) p
LEFT JOIN LATERAL (
    SELECT success_count, output FROM gandy.manifest_output WHERE e.is_output_passed AND manifest_id = e.parent_id LIMIT 1) o ON true;

DROP VIEW gandy.manifest_dispatch;
CREATE VIEW gandy.manifest_dispatch AS
SELECT m.id, m.external_id, m.owner, m.name AS train, m.manifest_group_id AS group_id,
       m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.scheduled_at,
       m.next_scheduled_run, m.next_look_at, m.priority, g.priority AS group_priority,
       m.exclusions, m.variance_seconds, m.misfire_policy, m.misfire_threshold_seconds,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.orphaned_at IS NOT NULL AS is_orphaned,
       greatest(m.enabled_at, g.enabled_at) AS enabled_at, m.last_skip_reason,
       m.failure_count, m.success_count, m.max_retries, m.is_retried,
       EXISTS (SELECT 1 FROM gandy.dead_letter l
               WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS has_awaiting_dead_letter,
       (SELECT q.origin FROM gandy.work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued') AS queued_origin,
       m.active_run_id IS NOT NULL AS has_active_execution,
       m.last_successful_run_id IS NOT NULL AS has_successful_metadata, m.completed_at,
       coalesce(f.have_ended, false) AS has_ended_parents, coalesce(f.are_enabled, true) AS has_enabled_parents,
       m.xmin::text AS version,  -- for optimistic locking: any write in between makes the decision stale
       m.created_at, m.served_spans::text AS served_spans
FROM gandy.manifest m
JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
LEFT JOIN LATERAL (
    SELECT bool_and(d.ended > d.seen) AS have_ended, bool_and(d.is_enabled) AS are_enabled
    FROM gandy.manifest_dependency d WHERE d.child_id = m.id AND m.schedule_type = 'dependent') f ON true;

ALTER TABLE gandy.manifest DROP COLUMN parent_success_seen;

-- Other roles may do with edges and outputs what they may do with manifests.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT o.name AS object, a.privilege_type AS privilege,
               CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM pg_class c, aclexplode(c.relacl) a,
             unnest(ARRAY['manifest_edge', 'manifest_output', 'manifest_dependency', 'manifest_dispatch']) AS o(name)
        WHERE c.oid = 'gandy.manifest'::regclass AND a.grantee <> c.relowner
          AND (a.privilege_type = 'SELECT' OR a.privilege_type IN ('INSERT', 'UPDATE', 'DELETE') AND o.name IN ('manifest_edge', 'manifest_output'))
    LOOP
        EXECUTE format('GRANT %s ON gandy.%I TO %s', kept.privilege, kept.object, kept.role);
    END LOOP;
END $$;
