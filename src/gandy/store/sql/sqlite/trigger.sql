-- name: lock_manifest
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT m.id, m.external_id, m.owner, m.name AS train, m.properties, m.property_type_name, m.active_run_id,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.origin, m.orphaned_at IS NOT NULL AS is_orphaned
FROM manifest m JOIN manifest_group g ON g.id = m.manifest_group_id
WHERE m.owner = :owner AND m.external_id = :external_id;

-- name: list_group_members
-- The manifests of a group, in the order in which they are locked.
SELECT m.external_id FROM manifest m JOIN manifest_group g ON g.id = m.manifest_group_id
WHERE g.owner = :owner AND m.owner = :owner AND g.name = :name AND m.orphaned_at IS NULL ORDER BY m.id;

-- name: queue_trigger
-- An operator's trigger: switched off or not, it waits only for its instant and for the active run.
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate, due_at,
    scheduled_at, created_at)
SELECT m.owner, m.name, :input, m.property_type_name, m.id, m.manifest_group_id, m.priority, 'trigger',
       CASE WHEN m.active_run_id IS NOT NULL THEN 'manifest' WHEN :delay_seconds > 0 THEN 'time' ELSE 'open' END,
       -- two triggers within one microsecond need different due_at values
       gandy_later(:delay_seconds + 0.000001 * (
           SELECT count(*) FROM work_queue q WHERE q.manifest_id = m.id AND q.attempt = 1
           AND q.due_at >= gandy_later(:delay_seconds) AND q.due_at < gandy_later(:delay_seconds + 0.001))),
       gandy_later(:delay_seconds), gandy_now()
FROM manifest m WHERE m.id = :manifest_id AND m.owner = :owner
ON CONFLICT DO NOTHING
RETURNING id, scheduled_at;

-- name: find_waiting
-- The queued entry of a manifest; there is at most one.
SELECT id, input, scheduled_at FROM work_queue
WHERE manifest_id = :manifest_id AND owner = :owner AND status = 'queued';

-- name: hasten_entry
-- Takes the earlier of two instants; if the manifest is switched off, the trigger opens the gate.
UPDATE work_queue SET
    scheduled_at = min(scheduled_at, gandy_later(:delay_seconds)),
    origin = CASE WHEN :is_off THEN 'trigger' ELSE origin END,
    gate = CASE WHEN gate = 'train' THEN 'train'
                WHEN (SELECT active_run_id FROM manifest m WHERE m.id = manifest_id) IS NOT NULL THEN 'manifest'
                WHEN min(scheduled_at, gandy_later(:delay_seconds)) > gandy_now() THEN 'time' ELSE 'open' END
WHERE id = :id AND owner = :owner AND status = 'queued'
RETURNING id, scheduled_at;

-- name: find_hindrances
-- The reasons against removing a manifest: a run, an awaiting letter, a dependent.
SELECT m.active_run_id,
       (SELECT l.id FROM dead_letter l
        WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS letter_id,
       (SELECT c.external_id FROM manifest c WHERE c.depends_on_manifest_id = m.id ORDER BY c.id LIMIT 1) AS dependent
FROM manifest m WHERE m.id = :manifest_id AND m.owner = :owner;

-- name: orphan_manifest
-- It still runs: no new runs, and it is removed after the run has ended.
UPDATE manifest SET orphaned_at = coalesce(orphaned_at, gandy_now()), updated_at = gandy_now()
WHERE id = :manifest_id AND owner = :owner;

-- name: forget_letters
-- Resolved letters outlive their manifest.
UPDATE dead_letter SET manifest_id = NULL 
WHERE manifest_id = :manifest_id AND owner = :owner AND status <> 'awaiting_intervention';

-- name: cancel_waiting
-- The queued and waiting entries of a manifest are cancelled with it.
UPDATE work_queue SET status = 'cancelled', settled_at = gandy_now()
WHERE manifest_id = :manifest_id AND owner = :owner AND status IN ('queued', 'waiting') RETURNING id;

-- name: delete_manifest
-- The last step: nothing refers to it any more.
DELETE FROM manifest WHERE id = :manifest_id AND owner = :owner AND active_run_id IS NULL RETURNING id;
