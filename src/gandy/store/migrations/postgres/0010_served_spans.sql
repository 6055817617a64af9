-- compatible_from: 4
-- Instants to come that ran under a clock ahead: the cursor was set back, and they do not run again.
ALTER TABLE gandy.manifest ADD COLUMN served_spans json;

-- Two columns more, at the end.
CREATE OR REPLACE VIEW gandy.manifest_dispatch AS
SELECT m.id, m.external_id, m.owner, m.name AS train, m.manifest_group_id AS group_id,
       m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.scheduled_at, p.external_id AS parent,
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
       m.depends_on_manifest_id AS parent_id, coalesce(p.is_enabled, true) AS is_parent_enabled,
       p.last_successful_run_id IS NOT NULL AS has_parent_succeeded,
       coalesce(p.success_count, 0) AS parent_success_count, m.parent_success_seen,
       m.xmin::text AS version,  -- for optimistic locking: any write in between makes the decision stale
       m.created_at, m.served_spans::text AS served_spans
FROM gandy.manifest m
JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
-- LATERAL forces a probe: a plan for many rows must not read all manifests to find a few parents
LEFT JOIN LATERAL (
    SELECT external_id, is_enabled, last_successful_run_id, success_count
    FROM gandy.manifest WHERE id = m.depends_on_manifest_id LIMIT 1) p ON true;
