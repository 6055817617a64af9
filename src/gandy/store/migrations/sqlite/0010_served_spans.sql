-- compatible_from: 4
-- Instants to come that ran under a clock ahead: the cursor was set back, and they do not run again.
ALTER TABLE manifest ADD COLUMN served_spans TEXT CHECK (served_spans IS NULL OR json_valid(served_spans));

DROP VIEW manifest_dispatch;
CREATE VIEW manifest_dispatch AS
SELECT m.id, m.external_id, m.owner, m.name AS train, m.manifest_group_id AS group_id,
       m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.scheduled_at, p.external_id AS parent,
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
       m.depends_on_manifest_id AS parent_id, coalesce(p.is_enabled, 1) AS is_parent_enabled,
       p.last_successful_run_id IS NOT NULL AS has_parent_succeeded,
       coalesce(p.success_count, 0) AS parent_success_count, m.parent_success_seen,
       '' AS version,  -- there is only one writer at a time: no version check is needed
       m.created_at, m.served_spans
FROM manifest m
JOIN manifest_group g ON g.id = m.manifest_group_id
LEFT JOIN manifest p ON p.id = m.depends_on_manifest_id;
