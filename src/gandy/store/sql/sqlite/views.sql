-- name: search_manifests
-- A page by external id; the walk is bounded, and a last row with place = searched marks the limit.
SELECT r.external_id, r.owner, r.name AS train, g.name AS group_name, r.schedule_type, r.cron_expression,
       r.interval_seconds, r.timezone,
       (SELECT json_group_array(json_array(d.parent, d.kind, d.is_output_passed))
        FROM (SELECT * FROM manifest_dependency WHERE child_id = r.id ORDER BY place) d) AS edges,
       r.is_enabled, g.is_enabled AS is_group_enabled, r.orphaned_at, r.priority,
       r.next_scheduled_run, r.last_successful_run, r.failure_count, r.success_count,
       (SELECT l.id FROM dead_letter l WHERE l.manifest_id = r.id AND l.status = 'awaiting_intervention') AS letter_id,
       r.active_run_id IS NOT NULL AS is_active, r.overrides <> '{}' AS has_overrides, f.place, f.is_match
FROM (
    SELECT w.id, row_number() OVER (ORDER BY w.external_id) AS place,
           (:train IS NULL OR w.name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group WHERE owner = :owner AND name = :group))
           AND (:schedule_type IS NULL OR w.schedule_type = :schedule_type)
           AND (:is_enabled IS NULL OR w.is_enabled = :is_enabled) AS is_match
    FROM (SELECT id, external_id, name, manifest_group_id, schedule_type, is_enabled
          FROM manifest
          WHERE owner = :owner AND external_id > :after AND external_id >= :prefix AND external_id < :prefix_end
          ORDER BY external_id LIMIT :searched) w) f
CROSS JOIN manifest r ON r.id = f.id
JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE f.is_match OR f.place = :searched
ORDER BY f.place LIMIT :limit;

-- name: search_manifests_of_train
-- The same for one train, by its index.
SELECT r.external_id, r.owner, r.name AS train, g.name AS group_name, r.schedule_type, r.cron_expression,
       r.interval_seconds, r.timezone,
       (SELECT json_group_array(json_array(d.parent, d.kind, d.is_output_passed))
        FROM (SELECT * FROM manifest_dependency WHERE child_id = r.id ORDER BY place) d) AS edges,
       r.is_enabled, g.is_enabled AS is_group_enabled, r.orphaned_at, r.priority,
       r.next_scheduled_run, r.last_successful_run, r.failure_count, r.success_count,
       (SELECT l.id FROM dead_letter l WHERE l.manifest_id = r.id AND l.status = 'awaiting_intervention') AS letter_id,
       r.active_run_id IS NOT NULL AS is_active, r.overrides <> '{}' AS has_overrides, f.place, f.is_match
FROM (
    SELECT w.id, row_number() OVER (ORDER BY w.external_id) AS place,
           (:train IS NULL OR w.name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group WHERE owner = :owner AND name = :group))
           AND (:schedule_type IS NULL OR w.schedule_type = :schedule_type)
           AND (:is_enabled IS NULL OR w.is_enabled = :is_enabled) AS is_match
    FROM (SELECT id, external_id, name, manifest_group_id, schedule_type, is_enabled
          FROM manifest INDEXED BY ix_manifest_name
          WHERE owner = :owner AND name = :train AND external_id > :after AND external_id >= :prefix AND external_id < :prefix_end
          ORDER BY external_id LIMIT :searched) w) f
CROSS JOIN manifest r ON r.id = f.id
JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE f.is_match OR f.place = :searched
ORDER BY f.place LIMIT :limit;

-- name: search_disabled_manifests
-- The same for manifests that are switched off, which are few.
SELECT r.external_id, r.owner, r.name AS train, g.name AS group_name, r.schedule_type, r.cron_expression,
       r.interval_seconds, r.timezone,
       (SELECT json_group_array(json_array(d.parent, d.kind, d.is_output_passed))
        FROM (SELECT * FROM manifest_dependency WHERE child_id = r.id ORDER BY place) d) AS edges,
       r.is_enabled, g.is_enabled AS is_group_enabled, r.orphaned_at, r.priority,
       r.next_scheduled_run, r.last_successful_run, r.failure_count, r.success_count,
       (SELECT l.id FROM dead_letter l WHERE l.manifest_id = r.id AND l.status = 'awaiting_intervention') AS letter_id,
       r.active_run_id IS NOT NULL AS is_active, r.overrides <> '{}' AS has_overrides, f.place, f.is_match
FROM (
    SELECT w.id, row_number() OVER (ORDER BY w.external_id) AS place,
           (:train IS NULL OR w.name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group WHERE owner = :owner AND name = :group))
           AND (:schedule_type IS NULL OR w.schedule_type = :schedule_type)
           AND (:is_enabled IS NULL OR w.is_enabled = :is_enabled) AS is_match
    FROM (SELECT id, external_id, name, manifest_group_id, schedule_type, is_enabled
          FROM manifest INDEXED BY ix_manifest_disabled
          WHERE owner = :owner AND external_id > :after AND external_id >= :prefix AND external_id < :prefix_end
            AND NOT is_enabled
          ORDER BY external_id LIMIT :searched) w) f
CROSS JOIN manifest r ON r.id = f.id
JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE f.is_match OR f.place = :searched
ORDER BY f.place LIMIT :limit;

-- name: gather_manifests_of_group
-- All manifests of a group if there are few; otherwise the first row has place = searched.
SELECT r.external_id, r.owner, r.name AS train, g.name AS group_name, r.schedule_type, r.cron_expression,
       r.interval_seconds, r.timezone,
       (SELECT json_group_array(json_array(d.parent, d.kind, d.is_output_passed))
        FROM (SELECT * FROM manifest_dependency WHERE child_id = r.id ORDER BY place) d) AS edges,
       r.is_enabled, g.is_enabled AS is_group_enabled, r.orphaned_at, r.priority,
       r.next_scheduled_run, r.last_successful_run, r.failure_count, r.success_count,
       (SELECT l.id FROM dead_letter l WHERE l.manifest_id = r.id AND l.status = 'awaiting_intervention') AS letter_id,
       r.active_run_id IS NOT NULL AS is_active, r.overrides <> '{}' AS has_overrides, f.place, f.is_match
FROM (
    SELECT w.id, row_number() OVER () AS place,
           w.external_id > :after AND w.external_id >= :prefix AND w.external_id < :prefix_end
           AND (:train IS NULL OR w.name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group WHERE owner = :owner AND name = :group))
           AND (:schedule_type IS NULL OR w.schedule_type = :schedule_type)
           AND (:is_enabled IS NULL OR w.is_enabled = :is_enabled) AS is_match
    FROM (SELECT id, external_id, name, manifest_group_id, schedule_type, is_enabled
          FROM manifest
          WHERE manifest_group_id IN (
              SELECT id FROM manifest_group
              WHERE owner = :owner AND name = :group)
          LIMIT :searched) w) f
CROSS JOIN manifest r ON r.id = f.id
JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE f.is_match OR f.place = :searched
ORDER BY f.place = :searched DESC, r.external_id LIMIT :limit;

-- name: list_groups
-- The groups of one application, with the number of their manifests (up to a limit) and live runs.
SELECT g.id, g.owner, g.name, g.max_active_jobs, g.priority, g.is_enabled, g.disabled_at, g.disabled_reason,
       g.overrides <> '{}' AS has_overrides,
       (SELECT count(*) FROM (
           SELECT 1 FROM manifest m WHERE m.manifest_group_id = g.id LIMIT :counted) n) AS manifests,
       (SELECT count(*) FROM (
           SELECT 1 FROM work_queue r INDEXED BY ix_work_queue_live_run
           WHERE r.status = 'dispatched' AND r.train_state IN ('pending', 'in_progress') AND r.owner = g.owner
             AND r.manifest_group_id = g.id LIMIT :counted) n) AS active
FROM manifest_group g
WHERE g.owner = :owner AND (:name IS NULL OR g.name = :name)
  AND g.name > :after AND substr(g.name, 1, length(:prefix)) = :prefix
ORDER BY g.name, g.id LIMIT :limit;

-- name: list_members
-- The first manifests of a group, in the order in which they were made.
SELECT m.external_id, m.owner, m.name AS train, g.name AS group_name, m.schedule_type, m.cron_expression,
       m.interval_seconds, m.timezone,
       (SELECT json_group_array(json_array(d.parent, d.kind, d.is_output_passed))
        FROM (SELECT * FROM manifest_dependency WHERE child_id = m.id ORDER BY place) d) AS edges,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.orphaned_at, m.priority,
       m.next_scheduled_run, m.last_successful_run, m.failure_count, m.success_count,
       (SELECT l.id FROM dead_letter l WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS letter_id,
       m.active_run_id IS NOT NULL AS is_active, m.overrides <> '{}' AS has_overrides
FROM manifest m JOIN manifest_group g ON g.id = m.manifest_group_id
WHERE m.manifest_group_id = (SELECT id FROM manifest_group WHERE owner = :owner AND name = :name)
ORDER BY m.id LIMIT :limit;
