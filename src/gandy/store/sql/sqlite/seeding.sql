-- name: lock_seeding
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT :owner AS owner;

-- name: find_declared
-- The stored declarations, to compare with the new ones.
SELECT external_id, owner, origin, declared, orphaned_at IS NOT NULL AS is_orphaned
FROM manifest WHERE owner = :owner AND external_id IN (SELECT value FROM json_each(:external_ids));

-- name: lock_declared
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT m.id, m.external_id, m.declared, m.overrides, m.next_scheduled_run, m.scheduled_at, m.completed_at,
       m.used_instants, m.is_enabled, m.orphaned_at IS NOT NULL AS is_orphaned, m.origin, m.owner
FROM manifest m WHERE m.owner = :owner AND m.external_id IN (SELECT value FROM json_each(:external_ids)) ORDER BY m.id;

-- name: load_ancestors
-- The ancestors of parents that were not declared in this seeding; all belong to the same application.
WITH RECURSIVE chain AS (
    SELECT id, external_id FROM manifest
    WHERE owner = :owner AND external_id IN (SELECT value FROM json_each(:external_ids))
    UNION
    SELECT m.id, m.external_id FROM chain
    JOIN manifest_edge e ON e.child_id = chain.id JOIN manifest m ON m.id = e.parent_id
    WHERE m.owner = :owner
)
SELECT c.external_id, p.external_id AS parent
FROM chain c LEFT JOIN manifest_edge e ON e.child_id = c.id LEFT JOIN manifest p ON p.id = e.parent_id;

-- name: drop_edges
-- Differs from PostgreSQL: no data-modifying CTE. Edges that are no longer declared, or not as they are stored. What they have
-- seen is kept: a changed one is written again at once, another one perhaps by the next deploy.
INSERT INTO manifest_former_edge (child_id, parent_id, success_seen, failure_seen, end_seen, output_seen, dropped_at)
SELECT e.child_id, e.parent_id, e.success_seen, e.failure_seen, e.end_seen,
       CASE WHEN e.is_output_passed THEN e.seen END, gandy_now()
FROM manifest_edge e
WHERE e.child_id = :child_id AND e.kind <> 'activation' AND NOT EXISTS (
    SELECT 1 FROM manifest p JOIN json_each(:kept) k ON k.key = p.external_id
    WHERE p.id = e.parent_id AND k.value = e.kind || CASE WHEN e.is_output_passed THEN '+output' ELSE '' END)
ON CONFLICT (child_id, parent_id) DO NOTHING;
DELETE FROM manifest_edge
WHERE child_id = :child_id AND NOT EXISTS (
    SELECT 1 FROM manifest p JOIN json_each(:kept) k ON k.key = p.external_id
    WHERE p.id = manifest_edge.parent_id
      AND k.value = manifest_edge.kind || CASE WHEN manifest_edge.is_output_passed THEN '+output' ELSE '' END);

-- name: insert_edges
-- A new edge counts the parent's ends from now on, one that was declared before those that it has not seen.
INSERT INTO manifest_edge (
    child_id, parent_id, seen, place, kind, is_output_passed, success_seen, failure_seen, end_seen)
SELECT c.id, p.id,
       CASE :kind WHEN 'success' THEN coalesce(CASE WHEN :is_output_passed THEN f.output_seen END, f.success_seen, p.success_count)
                  WHEN 'failure' THEN coalesce(f.failure_seen, p.final_failure_count)
                  WHEN 'end' THEN coalesce(f.end_seen, p.end_count) ELSE 0 END,
       :place, :kind, :is_output_passed, coalesce(f.success_seen, p.success_count),
       coalesce(f.failure_seen, p.final_failure_count), coalesce(f.end_seen, p.end_count)
FROM manifest c JOIN manifest p ON p.owner = :owner AND p.external_id = :parent
LEFT JOIN manifest_former_edge f ON f.child_id = c.id AND f.parent_id = p.id
WHERE c.owner = :owner AND c.external_id = :child
ON CONFLICT (child_id, parent_id) DO UPDATE SET place = excluded.place;
DELETE FROM manifest_former_edge
WHERE child_id = (SELECT id FROM manifest WHERE owner = :owner AND external_id = :child)
  AND parent_id = (SELECT id FROM manifest WHERE owner = :owner AND external_id = :parent)
  AND :kind <> 'activation';  -- which counts nothing

-- name: adopt_outputs
-- Dependents begin to take the output of their parent, perhaps again. It may not have been kept meanwhile, so take that of the
-- last success, if its run is on record.
INSERT INTO manifest_output (manifest_id, success_count, output)
SELECT p.id, p.success_count, coalesce(h.output, 'null')
FROM manifest p JOIN history h ON h.id = p.last_successful_run_id
WHERE p.id IN (SELECT e.parent_id FROM manifest c JOIN manifest_edge e ON e.child_id = c.id AND e.is_output_passed
               WHERE c.owner = :owner AND c.external_id IN (SELECT value FROM json_each(:children)))
ON CONFLICT (manifest_id) DO UPDATE SET success_count = excluded.success_count, output = excluded.output
WHERE success_count < excluded.success_count;

-- name: drop_stale_outputs
-- An older output than that of the last success is never taken.
DELETE FROM manifest_output
WHERE manifest_id IN (SELECT e.parent_id FROM manifest c JOIN manifest_edge e ON e.child_id = c.id AND e.is_output_passed
                      WHERE c.owner = :owner AND c.external_id IN (SELECT value FROM json_each(:children)))
  AND success_count < (SELECT p.success_count FROM manifest p WHERE p.id = manifest_id);

-- name: insert_manifests
-- New manifests; their edges follow.
INSERT INTO manifest (
    external_id, owner, name, manifest_group_id, properties, property_type_name, schedule_type, cron_expression,
    interval_seconds, timezone, scheduled_at, depends_on_manifest_id, /* options: columns */
    priority, origin, batch, is_enabled, disabled_at, declared, next_scheduled_run, next_look_at,
    created_at, updated_at)
VALUES (:external_id, :owner, :name, :manifest_group_id, :properties, :property_type_name, :schedule_type,
    :cron_expression, :interval_seconds, :timezone, :scheduled_at,
    (SELECT id FROM manifest WHERE owner = :owner AND external_id = :parent),
    /* options: values */ :priority, :origin, :batch, :is_enabled,
    CASE WHEN NOT :is_enabled THEN gandy_now() END, :declared, :next_scheduled_run, :next_look_at, gandy_now(), gandy_now());

-- name: update_manifests
-- Changed declarations or overrides: write the effective values, and the cursor if the schedule changed.
UPDATE manifest SET
    name = :name, manifest_group_id = :manifest_group_id, properties = :properties,
    property_type_name = :property_type_name, schedule_type = :schedule_type, cron_expression = :cron_expression,
    interval_seconds = :interval_seconds, timezone = :timezone, scheduled_at = :scheduled_at,
    depends_on_manifest_id = (SELECT p.id FROM manifest p WHERE p.owner = :owner AND p.external_id = :parent),
    /* options: changes */ priority = :priority, origin = :origin, batch = :batch,
    is_enabled = :is_enabled,
    disabled_at = CASE WHEN :is_enabled THEN NULL ELSE coalesce(disabled_at, gandy_now()) END,
    disabled_reason = CASE WHEN :is_enabled THEN NULL ELSE coalesce(:reason, disabled_reason) END,
    enabled_at = CASE WHEN :is_enabled AND (NOT is_enabled OR (orphaned_at IS NOT NULL AND NOT :is_orphaned)) THEN gandy_now()
                      ELSE enabled_at END,
    has_dependents_due = has_dependents_due OR (:is_enabled AND NOT is_enabled AND end_count > 0),
    orphaned_at = CASE WHEN :is_orphaned THEN orphaned_at END, declared = :declared, overrides = :overrides,
    next_scheduled_run = :next_scheduled_run,
    next_look_at = CASE WHEN next_look_at <= gandy_now() THEN next_look_at
                        -- failures may already have reached a new limit: a look, in which the manager parks the manifest
                        WHEN :is_retried AND failure_count >= max(1, :max_retries) THEN gandy_now()
                        ELSE :next_look_at END,
    completed_at = :completed_at, used_instants = :used_instants, updated_at = gandy_now()
WHERE owner = :owner AND external_id = :external_id
RETURNING id, external_id;

-- name: mark_orphans
-- Manifests that the same application no longer declares; never those made at run time.
UPDATE manifest SET orphaned_at = gandy_now(), updated_at = gandy_now()
WHERE owner = :owner AND origin = 'declared' AND orphaned_at IS NULL
  AND (:is_whole OR batch IN (SELECT value FROM json_each(:emptied)))
  AND NOT (batch IS NOT NULL AND batch IN (SELECT value FROM json_each(:spared)))
  AND external_id NOT IN (SELECT value FROM json_each(:external_ids))
RETURNING external_id;

-- name: lock_group
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT id, name, declared, overrides, max_active_jobs, priority, is_enabled, disabled_reason
FROM manifest_group WHERE owner = :owner AND name = :name;

-- name: update_groups
-- The effective values; enabled_at is set only if the group was switched off before.
UPDATE manifest_group SET
    declared = :declared, overrides = :overrides, max_active_jobs = :max_active_jobs, priority = :priority,
    enabled_at = CASE WHEN :is_enabled AND NOT is_enabled THEN gandy_now() ELSE enabled_at END,
    disabled_at = CASE WHEN :is_enabled THEN NULL ELSE coalesce(disabled_at, gandy_now()) END,
    disabled_reason = CASE WHEN :is_enabled THEN NULL ELSE :reason END,
    is_enabled = :is_enabled, updated_at = gandy_now()
WHERE id = :id AND owner = :owner;

-- name: spread_group_priority
-- A manifest without a priority of its own takes its group's.
UPDATE manifest SET priority = g.priority, updated_at = gandy_now()
FROM manifest_group g
WHERE g.id = manifest.manifest_group_id AND g.id IN (SELECT value FROM json_each(:ids))
  AND g.owner = :owner AND manifest.owner = :owner
  AND manifest.priority <> g.priority
  AND coalesce(manifest.overrides ->> 'priority', manifest.declared ->> 'priority') IS NULL;

-- name: wake_groups
-- After a group is switched on: a look at each manifest, for verdicts on the instants that passed meanwhile.
UPDATE manifest SET next_look_at = gandy_now()
WHERE manifest_group_id IN (SELECT value FROM json_each(:ids)) AND owner = :owner AND is_enabled AND orphaned_at IS NULL
  AND (next_scheduled_run IS NOT NULL OR schedule_type = 'dependent')
RETURNING id;

-- name: retrain_entries
-- The train of a manifest has changed: its entries take the new train.
UPDATE work_queue SET
    train_name = m.name, input_type_name = m.property_type_name,
    input = CASE WHEN work_queue.status = 'queued' AND work_queue.origin IN ('schedule', 'dependent') AND NOT EXISTS (
                     SELECT 1 FROM manifest_edge e WHERE e.child_id = m.id AND e.is_output_passed)
                 THEN m.properties ELSE work_queue.input END,
    gate = CASE WHEN work_queue.gate = 'train' THEN 'open' ELSE work_queue.gate END
FROM manifest m
WHERE work_queue.manifest_id = m.id AND m.id IN (SELECT value FROM json_each(:ids)) AND m.owner = :owner
  AND work_queue.status IN ('queued', 'waiting') AND work_queue.train_name <> m.name;

-- name: regate_entries
-- Recomputes the gates of queued entries after a change of their manifest.
UPDATE work_queue SET gate = CASE
    WHEN m.active_run_id IS NOT NULL OR NOT (work_queue.origin = 'trigger' OR m.is_enabled AND m.orphaned_at IS NULL)
        THEN 'manifest'
    WHEN work_queue.scheduled_at > gandy_now() THEN 'time' ELSE 'open' END
FROM manifest m
WHERE work_queue.manifest_id = m.id AND m.id IN (SELECT value FROM json_each(:ids)) AND m.owner = :owner
  AND work_queue.status = 'queued' AND work_queue.gate <> 'train';
