-- name: load_page
-- One page of the repair pass over all manifests, without dependents whose parent's mark will schedule their look.
SELECT v.* FROM gandy.manifest_dispatch v
WHERE v.id > :after_id
  AND NOT EXISTS (SELECT 1 FROM gandy.manifest_edge e JOIN gandy.manifest p ON p.id = e.parent_id
                  WHERE e.child_id = v.id AND p.has_dependents_due)
ORDER BY v.id LIMIT :limit;

-- name: load_view_of
-- The snapshot of one manifest for an evaluation, restricted to its owner.
SELECT v.* FROM gandy.manifest_dispatch v WHERE v.id = :id AND v.owner = :owner;

-- name: page_capped_manifests
-- Manifests that limit the number of kept runs, page by page.
SELECT id, keep_last FROM gandy.manifest
WHERE keep_last IS NOT NULL AND id > coalesce(:after_id::bigint, 0) ORDER BY id LIMIT :page;

-- name: show_manifest
-- All columns of one manifest, with its group, letter and entries.
SELECT m.*, g.name AS group_name, g.is_enabled AS is_group_enabled, g.priority AS group_priority,
       g.max_active_jobs AS group_max_active_jobs, g.disabled_reason AS group_disabled_reason,
       l.id AS letter_id, l.reason AS letter_reason, l.dead_lettered_at,
       q.id AS waiting_id, q.origin AS waiting_origin, q.scheduled_at AS waiting_until_at, q.gate AS waiting_gate,
       (SELECT count(*) FROM (SELECT 1 FROM gandy.work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting'
                              LIMIT 10001) n) AS turns,
       (SELECT min(w.id) FROM gandy.work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting') AS next_turn_id,
       gandy.now() AS now
FROM gandy.manifest m
JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
LEFT JOIN gandy.dead_letter l ON l.manifest_id = m.id AND l.status = 'awaiting_intervention'
LEFT JOIN gandy.work_queue q ON q.manifest_id = m.id AND q.status = 'queued'
WHERE m.owner = :owner AND m.external_id = :external_id;

-- name: load_upcoming
-- Manifests in the order of their next instants, by index, with what holds them back; with is_deferred, only those that may
-- pass over their next instant.
SELECT v.*, g.name AS group_name, m.disabled_reason, g.disabled_reason AS group_disabled_reason, m.active_run_id,
       (SELECT l.id FROM gandy.dead_letter l WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS letter_id,
       (SELECT q.id FROM gandy.work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued') AS queued_id
FROM (SELECT id FROM gandy.manifest
      WHERE owner = :owner AND next_scheduled_run IS NOT NULL AND (next_scheduled_run, id) > (:after_at::timestamptz, :after_id::bigint)
        AND next_scheduled_run <= :until AND (NOT :is_deferred::boolean OR length(CAST(exclusions AS text)) > 2 OR served_spans IS NOT NULL)
      ORDER BY owner, next_scheduled_run, id LIMIT :limit) n
JOIN gandy.manifest m ON m.id = n.id
JOIN gandy.manifest_dispatch v ON v.id = n.id
JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
ORDER BY v.next_scheduled_run, v.id;

-- name: list_parents
-- What a manifest depends on, in the order of its declaration; `lacks_output`: a success waits whose output was not kept.
SELECT d.parent, d.kind, d.is_output_passed, d.seen, d.ended, d.is_enabled, d.orphaned_at,
       d.is_output_passed AND d.ended <= d.seen AND p.success_count > e.success_seen AS lacks_output
FROM gandy.manifest_dependency d
JOIN gandy.manifest_edge e ON e.child_id = d.child_id AND e.parent_id = d.parent_id
JOIN gandy.manifest p ON p.id = d.parent_id
WHERE d.child_id = :manifest_id AND d.owner = :owner
ORDER BY d.place, d.parent;

-- name: list_dependents
-- The dependents of a manifest, up to a limit.
SELECT c.external_id FROM (
    SELECT m.external_id
    FROM (SELECT child_id FROM gandy.manifest_edge WHERE parent_id = :manifest_id ORDER BY parent_id, kind, child_id LIMIT :searched) e
    JOIN gandy.manifest m ON m.id = e.child_id AND m.owner = :owner) c
ORDER BY c.external_id LIMIT :limit;

-- name: load_passed_output
-- The newest output of the parent of a manifest that takes it as its input.
SELECT d.parent, d.output FROM gandy.manifest_dependency d WHERE d.child_id = :manifest_id AND d.is_output_passed;

-- name: find_train_of_manifest
-- Its output is compared with the input of a dependent that takes it.
SELECT m.name AS train FROM gandy.manifest m WHERE m.owner = :owner AND m.external_id = :external_id;

-- name: find_orphaned_parents
-- Dependents that are declared, on parents that are not: these have no new runs.
SELECT c.owner, c.external_id AS manifest, p.external_id AS parent
FROM gandy.manifest p
JOIN gandy.manifest_edge e ON e.parent_id = p.id
JOIN gandy.manifest c ON c.id = e.child_id
WHERE p.orphaned_at IS NOT NULL AND c.orphaned_at IS NULL AND (:owner::text IS NULL OR p.owner = :owner)
ORDER BY p.orphaned_at, p.id LIMIT :limit;

-- name: find_removal_blockers
-- The reasons against removing a manifest: a run, an awaiting letter, a dependent.
SELECT m.active_run_id,
       (SELECT l.id FROM gandy.dead_letter l
        WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS letter_id,
       (SELECT c.external_id FROM gandy.manifest_edge e JOIN gandy.manifest c ON c.id = e.child_id
        WHERE e.parent_id = m.id ORDER BY e.kind, e.child_id LIMIT 1) AS dependent
FROM gandy.manifest m WHERE m.id = :manifest_id AND m.owner = :owner;

-- name: orphan_manifest
-- It still runs: no new runs, and it is removed after the run has ended.
UPDATE gandy.manifest SET orphaned_at = coalesce(orphaned_at, gandy.now()), updated_at = gandy.now()
WHERE id = :manifest_id AND owner = :owner;

-- name: delete_manifest
-- The last step: nothing refers to it any more.
DELETE FROM gandy.manifest WHERE id = :manifest_id AND owner = :owner AND active_run_id IS NULL RETURNING id;

-- name: find_stuck_manifests
-- Their active_run_id refers to no live run: they would never run again.
SELECT m.external_id AS manifest, m.active_run_id AS run_id FROM gandy.manifest m
WHERE m.active_run_id IS NOT NULL AND (:owner::text IS NULL OR m.owner = :owner)
  AND NOT EXISTS (SELECT 1 FROM gandy.work_queue r WHERE r.id = m.active_run_id AND r.train_state IS NOT NULL)
ORDER BY m.id LIMIT :limit;

-- name: find_stalled_orphans
-- Manifests that are no longer declared, with a queued entry that makes them stay; a trigger runs all the same.
SELECT m.owner, m.external_id AS manifest, m.id AS manifest_id, 'orphaned' AS held_by,
       1 + (SELECT count(*) FROM (SELECT 1 FROM gandy.work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting'
                                  LIMIT :counted) n) AS entries
FROM gandy.manifest m
WHERE m.orphaned_at IS NOT NULL AND m.active_run_id IS NULL AND (:owner::text IS NULL OR m.owner = :owner)
  AND EXISTS (SELECT 1 FROM gandy.work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued'
              AND q.origin IN ('retry', 'dormant', 'requeue'))
LIMIT :limit;
