-- name: search_manifests
-- A page by external id; the walk is bounded, and a last row with place = searched marks the limit.
SELECT r.external_id, r.owner, r.name AS train, g.name AS group_name, r.schedule_type, r.cron_expression,
       r.interval_seconds, r.timezone,
       (SELECT json_agg(json_build_array(d.parent, d.kind, d.is_output_passed) ORDER BY d.place)::text
        FROM gandy.manifest_dependency d WHERE d.child_id = r.id) AS edges,
       r.is_enabled, g.is_enabled AS is_group_enabled, r.orphaned_at, r.priority,
       r.next_scheduled_run, r.last_successful_run, r.failure_count, r.success_count,
       (SELECT l.id FROM gandy.dead_letter l WHERE l.manifest_id = r.id AND l.status = 'awaiting_intervention') AS letter_id,
       r.active_run_id IS NOT NULL AS is_active, r.overrides::text <> '{}' AS has_overrides, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.external_id) AS place,
           (%(train)s::text IS NULL OR w.name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group WHERE owner = %(owner)s AND name = %(group)s)))
           AND (%(schedule_type)s::text IS NULL OR w.schedule_type = %(schedule_type)s)
           AND (%(is_enabled)s::bool IS NULL OR w.is_enabled = %(is_enabled)s) AS is_match
    FROM (SELECT id, external_id, owner, name, manifest_group_id, schedule_type, cron_expression, interval_seconds, timezone, is_enabled,
                 orphaned_at, priority, next_scheduled_run, last_successful_run, failure_count, success_count, active_run_id, overrides
          FROM gandy.manifest
          WHERE owner = %(owner)s AND external_id > %(after)s AND external_id >= %(prefix)s AND external_id < %(prefix_end)s
          ORDER BY external_id LIMIT %(searched)s) w) r
JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.external_id LIMIT %(limit)s;

-- name: search_manifests_of_train
-- The same for one train, by its index: bounds and order are written so that no other index can serve.
SELECT r.external_id, r.owner, r.name AS train, g.name AS group_name, r.schedule_type, r.cron_expression,
       r.interval_seconds, r.timezone,
       (SELECT json_agg(json_build_array(d.parent, d.kind, d.is_output_passed) ORDER BY d.place)::text
        FROM gandy.manifest_dependency d WHERE d.child_id = r.id) AS edges,
       r.is_enabled, g.is_enabled AS is_group_enabled, r.orphaned_at, r.priority,
       r.next_scheduled_run, r.last_successful_run, r.failure_count, r.success_count,
       (SELECT l.id FROM gandy.dead_letter l WHERE l.manifest_id = r.id AND l.status = 'awaiting_intervention') AS letter_id,
       r.active_run_id IS NOT NULL AS is_active, r.overrides::text <> '{}' AS has_overrides, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.name, w.owner, w.external_id) AS place,
           (%(train)s::text IS NULL OR w.name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group WHERE owner = %(owner)s AND name = %(group)s)))
           AND (%(schedule_type)s::text IS NULL OR w.schedule_type = %(schedule_type)s)
           AND (%(is_enabled)s::bool IS NULL OR w.is_enabled = %(is_enabled)s) AS is_match
    FROM (SELECT id, external_id, owner, name, manifest_group_id, schedule_type, cron_expression, interval_seconds, timezone, is_enabled,
                 orphaned_at, priority, next_scheduled_run, last_successful_run, failure_count, success_count, active_run_id, overrides
          FROM gandy.manifest
          WHERE (name, owner, external_id) >= (%(train)s, %(owner)s, greatest(%(after)s, %(prefix)s))
            AND (name, owner, external_id) < (%(train)s, %(owner)s, %(prefix_end)s) AND external_id > %(after)s
          ORDER BY name, owner, external_id LIMIT %(searched)s) w) r
JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.name, r.owner, r.external_id LIMIT %(limit)s;

-- name: search_disabled_manifests
-- The same for manifests that are switched off, which are few.
SELECT r.external_id, r.owner, r.name AS train, g.name AS group_name, r.schedule_type, r.cron_expression,
       r.interval_seconds, r.timezone,
       (SELECT json_agg(json_build_array(d.parent, d.kind, d.is_output_passed) ORDER BY d.place)::text
        FROM gandy.manifest_dependency d WHERE d.child_id = r.id) AS edges,
       r.is_enabled, g.is_enabled AS is_group_enabled, r.orphaned_at, r.priority,
       r.next_scheduled_run, r.last_successful_run, r.failure_count, r.success_count,
       (SELECT l.id FROM gandy.dead_letter l WHERE l.manifest_id = r.id AND l.status = 'awaiting_intervention') AS letter_id,
       r.active_run_id IS NOT NULL AS is_active, r.overrides::text <> '{}' AS has_overrides, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.external_id) AS place,
           (%(train)s::text IS NULL OR w.name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group WHERE owner = %(owner)s AND name = %(group)s)))
           AND (%(schedule_type)s::text IS NULL OR w.schedule_type = %(schedule_type)s)
           AND (%(is_enabled)s::bool IS NULL OR w.is_enabled = %(is_enabled)s) AS is_match
    FROM (SELECT id, external_id, owner, name, manifest_group_id, schedule_type, cron_expression, interval_seconds, timezone, is_enabled,
                 orphaned_at, priority, next_scheduled_run, last_successful_run, failure_count, success_count, active_run_id, overrides
          FROM gandy.manifest
          WHERE owner = %(owner)s AND external_id > %(after)s AND external_id >= %(prefix)s AND external_id < %(prefix_end)s
            AND NOT is_enabled
          ORDER BY external_id LIMIT %(searched)s) w) r
JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.external_id LIMIT %(limit)s;

-- name: gather_manifests_of_group
-- All manifests of a group if there are few; otherwise the first row has place = searched.
SELECT r.external_id, r.owner, r.name AS train, g.name AS group_name, r.schedule_type, r.cron_expression,
       r.interval_seconds, r.timezone,
       (SELECT json_agg(json_build_array(d.parent, d.kind, d.is_output_passed) ORDER BY d.place)::text
        FROM gandy.manifest_dependency d WHERE d.child_id = r.id) AS edges,
       r.is_enabled, g.is_enabled AS is_group_enabled, r.orphaned_at, r.priority,
       r.next_scheduled_run, r.last_successful_run, r.failure_count, r.success_count,
       (SELECT l.id FROM gandy.dead_letter l WHERE l.manifest_id = r.id AND l.status = 'awaiting_intervention') AS letter_id,
       r.active_run_id IS NOT NULL AS is_active, r.overrides::text <> '{}' AS has_overrides, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER () AS place,
           w.external_id > %(after)s AND w.external_id >= %(prefix)s AND w.external_id < %(prefix_end)s
           AND (%(train)s::text IS NULL OR w.name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group WHERE owner = %(owner)s AND name = %(group)s)))
           AND (%(schedule_type)s::text IS NULL OR w.schedule_type = %(schedule_type)s)
           AND (%(is_enabled)s::bool IS NULL OR w.is_enabled = %(is_enabled)s) AS is_match
    FROM (SELECT id, external_id, owner, name, manifest_group_id, schedule_type, cron_expression, interval_seconds, timezone, is_enabled,
                 orphaned_at, priority, next_scheduled_run, last_successful_run, failure_count, success_count, active_run_id, overrides
          FROM gandy.manifest
          WHERE manifest_group_id = ANY (ARRAY(
              SELECT id FROM gandy.manifest_group
              WHERE owner = %(owner)s AND name = %(group)s))
          LIMIT %(searched)s) w) r
JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.place = %(searched)s DESC, r.external_id LIMIT %(limit)s;

-- name: list_groups
-- The groups of one application, with the number of their manifests (up to a limit) and live runs.
SELECT g.id, g.owner, g.name, g.max_active_jobs, g.priority, g.is_enabled, g.disabled_at, g.disabled_reason,
       g.overrides::text <> '{}' AS has_overrides,
       (SELECT count(*) FROM (
           SELECT FROM gandy.manifest m WHERE m.manifest_group_id BETWEEN g.id AND g.id  -- so that only one index can serve
           ORDER BY m.manifest_group_id, m.id LIMIT %(counted)s) n) AS manifests,
       (SELECT count(*) FROM (
           SELECT FROM gandy.work_queue r 
           WHERE r.status = 'dispatched' AND r.train_state IN ('pending', 'in_progress') AND r.owner = g.owner
             AND r.manifest_group_id = g.id LIMIT %(counted)s) n) AS active
FROM gandy.manifest_group g
WHERE g.owner = %(owner)s AND (%(name)s::text IS NULL OR g.name = %(name)s)
  AND g.name > %(after)s AND starts_with(g.name, %(prefix)s)
ORDER BY g.name, g.id LIMIT %(limit)s;

-- name: list_members
-- The first manifests of a group. BETWEEN instead of =, so that only one index provides this order: by the primary key, the
-- planner would read all manifests for a group that has few.
SELECT m.external_id, m.owner, m.name AS train, g.name AS group_name, m.schedule_type, m.cron_expression,
       m.interval_seconds, m.timezone,
       (SELECT json_agg(json_build_array(d.parent, d.kind, d.is_output_passed) ORDER BY d.place)::text
        FROM gandy.manifest_dependency d WHERE d.child_id = m.id) AS edges,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.orphaned_at, m.priority,
       m.next_scheduled_run, m.last_successful_run, m.failure_count, m.success_count,
       (SELECT l.id FROM gandy.dead_letter l WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS letter_id,
       m.active_run_id IS NOT NULL AS is_active, m.overrides::text <> '{}' AS has_overrides
FROM gandy.manifest m JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
WHERE m.manifest_group_id BETWEEN (SELECT id FROM gandy.manifest_group WHERE owner = %(owner)s AND name = %(name)s)
                              AND (SELECT id FROM gandy.manifest_group WHERE owner = %(owner)s AND name = %(name)s)
ORDER BY m.manifest_group_id, m.id LIMIT %(limit)s;
