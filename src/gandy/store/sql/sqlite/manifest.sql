-- name: wake_dependents
-- Differs from PostgreSQL: SQLite has no data-modifying CTE; the write lock is already held, so no row is passed over.
UPDATE manifest SET next_look_at = min(coalesce(next_look_at, gandy_now()), gandy_now())
WHERE id IN (
    SELECT e.child_id FROM (
        SELECT id, success_count, final_failure_count, end_count
        FROM manifest INDEXED BY ix_manifest_dependents_due WHERE has_dependents_due ORDER BY id LIMIT :limit) p
    CROSS JOIN manifest_edge e INDEXED BY ix_manifest_edge_parent ON e.parent_id = p.id
    WHERE e.seen < CASE e.kind WHEN 'success' THEN p.success_count WHEN 'failure' THEN p.final_failure_count
                               WHEN 'end' THEN p.end_count ELSE 0 END)
  -- a dependent that is switched off or parked gets its look when that ends
  AND is_enabled AND orphaned_at IS NULL
  AND EXISTS (SELECT 1 FROM manifest_group g WHERE g.id = manifest.manifest_group_id AND g.is_enabled)
  AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.manifest_id = manifest.id AND l.status = 'awaiting_intervention');
UPDATE manifest SET has_dependents_due = 0
WHERE has_dependents_due AND id IN (
    SELECT id FROM manifest INDEXED BY ix_manifest_dependents_due WHERE has_dependents_due ORDER BY id LIMIT :limit)
RETURNING id;

-- name: count_due_by_group
-- Reads only the due entries of the index; without any, one probe.
SELECT d.id, g.priority, d.due, d.oldest_due_at FROM (
    SELECT manifest_group_id AS id, count(*) AS due, min(next_look_at) AS oldest_due_at
    FROM manifest INDEXED BY ix_manifest_next_look WHERE next_look_at <= gandy_now() GROUP BY manifest_group_id) d
JOIN manifest_group g ON g.id = d.id;

-- name: load_few_due
-- The manifests that are due for a look, in any order; the caller asks for one more than it takes.
SELECT v.* FROM manifest_dispatch v
WHERE v.id IN (SELECT id FROM manifest INDEXED BY ix_manifest_next_look WHERE next_look_at <= gandy_now() LIMIT :limit);

-- name: load_all_due
-- All manifests that are due for a look.
SELECT v.* FROM manifest_dispatch v
WHERE v.id IN (SELECT id FROM manifest INDEXED BY ix_manifest_next_look WHERE next_look_at <= gandy_now())
ORDER BY v.id;

-- name: load_shares
-- The share of each group, by priority, then longest due first; with free_first, manifests that no guard blocks come first.
WITH due AS (
    SELECT id, manifest_group_id,
           row_number() OVER (PARTITION BY manifest_group_id ORDER BY
               CASE WHEN :free_first THEN active_run_id IS NOT NULL
                   OR EXISTS (SELECT 1 FROM work_queue q WHERE q.manifest_id = manifest.id AND q.status = 'queued')
                   OR EXISTS (SELECT 1 FROM dead_letter l
                              WHERE l.manifest_id = manifest.id AND l.status = 'awaiting_intervention') END,
               priority DESC, next_look_at, id) AS place
    FROM manifest INDEXED BY ix_manifest_next_look WHERE next_look_at <= gandy_now()
), share AS (
    SELECT CAST(key AS INTEGER) AS group_id, value AS most FROM json_each(:shares)
)
SELECT v.* FROM manifest_dispatch v
WHERE v.id IN (
    SELECT due.id FROM share JOIN due ON due.manifest_group_id = share.group_id AND due.place <= share.most)
ORDER BY v.id;

-- name: load_views
-- The same snapshot, by id.
SELECT v.* FROM manifest_dispatch v WHERE v.id IN (SELECT value FROM json_each(:ids)) ORDER BY v.id;

-- name: next_look
-- The seconds that the manager may sleep.
SELECT gandy_seconds(next_look_at) AS seconds FROM manifest INDEXED BY ix_manifest_next_look
WHERE next_look_at IS NOT NULL ORDER BY next_look_at LIMIT 1;

-- name: advance_manifests
-- Differs from PostgreSQL: no data-modifying CTE; runs once per decision, and the write lock replaces the version check.
-- The ends of parents are seen before the entry is written, which a queued one would refuse.
UPDATE manifest_edge SET
    seen = (SELECT d.ended FROM manifest_dependency d
            WHERE d.child_id = manifest_edge.child_id AND d.parent_id = manifest_edge.parent_id),
    (success_seen, failure_seen, end_seen) = (
        SELECT p.success_count, p.final_failure_count, p.end_count FROM manifest p WHERE p.id = manifest_edge.parent_id)
WHERE child_id = :id AND :origin = 'dependent' AND :due_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.manifest_id = :id AND q.status = 'queued')
  AND EXISTS (SELECT 1 FROM manifest WHERE id = :id AND next_scheduled_run IS :cursor AND '' = :version);
-- the edges of another version of the application see the same ends
UPDATE manifest_former_edge SET
    (success_seen, failure_seen, end_seen) = (
        SELECT p.success_count, p.final_failure_count, p.end_count FROM manifest p WHERE p.id = manifest_former_edge.parent_id),
    output_seen = CASE WHEN output_seen IS NOT NULL THEN coalesce((
        SELECT o.success_count FROM manifest_output o WHERE o.manifest_id = manifest_former_edge.parent_id), output_seen) END
WHERE child_id = :id AND :origin = 'dependent' AND :due_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.manifest_id = :id AND q.status = 'queued')
  AND EXISTS (SELECT 1 FROM manifest WHERE id = :id AND next_scheduled_run IS :cursor AND '' = :version);
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate, due_at,
    scheduled_at, created_at)
SELECT owner, name,
       CASE WHEN :origin = 'dependent' THEN coalesce((
           SELECT d.output FROM manifest_dependency d WHERE d.child_id = manifest.id AND d.is_output_passed), properties)
       ELSE properties END, property_type_name, id, manifest_group_id, priority, :origin,
       CASE WHEN active_run_id IS NOT NULL THEN 'manifest' WHEN :scheduled_at > gandy_now() THEN 'time' ELSE 'open' END,
       -- an event has no scheduled instant: two within one microsecond need different due_at values
       CASE WHEN :origin = 'dependent' THEN gandy_later(coalesce((
           SELECT gandy_seconds(max(q.due_at)) + 0.000001 FROM work_queue q WHERE q.manifest_id = :id AND q.attempt = 1
           AND q.due_at >= :due_at AND q.due_at < gandy_later(0.001)), 0)) ELSE :due_at END,
       :scheduled_at, gandy_now()
FROM manifest WHERE id = :id AND next_scheduled_run IS :cursor AND '' = :version AND :due_at IS NOT NULL
ON CONFLICT DO NOTHING;
-- changes() counts the rows of the previous statement
UPDATE manifest SET
    next_scheduled_run = :next_cursor, next_look_at = :next_look, last_skip_reason = :skip_reason
WHERE id = :id AND next_scheduled_run IS :cursor AND '' = :version
RETURNING id, changes() = 1 AS is_queued;

-- name: step_back
-- Another entry of the manifest is queued: restore the cursor, so that the instant is deferred, not lost.
UPDATE manifest SET next_scheduled_run = :cursor, next_look_at = NULL
WHERE id = :id AND NOT EXISTS (
    SELECT 1 FROM work_queue q WHERE q.manifest_id = :id AND q.due_at = :cursor AND q.attempt = 1)
RETURNING id;

-- name: extend_skips
-- Consecutive skipped instants with the same reason share one row.
UPDATE work_queue SET due_until = :due_until, occurrences = occurrences + :occurrences, settled_at = gandy_now()
WHERE id = (SELECT last_skip_id FROM manifest WHERE id = :manifest_id) AND status = 'skipped' AND reason = :reason
RETURNING manifest_id;

-- name: record_skips
-- One row per manifest and reason; the manifest refers to the last one, which can be extended.
INSERT INTO work_queue (
    owner, train_name, manifest_id, manifest_group_id, priority, status, reason, error, origin, due_at, due_until,
    occurrences, scheduled_at, created_at)
SELECT m.owner, m.name, m.id, m.manifest_group_id, m.priority, 'skipped', :reason, :error,
       CASE WHEN m.schedule_type = 'dependent' THEN 'dependent' ELSE 'schedule' END, :due_at, :due_until,
       :occurrences, :due_at, gandy_now()
FROM manifest m WHERE m.id = :manifest_id
ON CONFLICT DO NOTHING;
UPDATE manifest SET last_skip_id = (
    SELECT max(q.id) FROM work_queue q WHERE q.manifest_id = :manifest_id AND q.due_at = :due_at AND q.status = 'skipped')
WHERE id = :manifest_id
RETURNING id;

-- name: set_looks
-- Differs from PostgreSQL: the write lock replaces the version check.
UPDATE manifest SET next_look_at = :next_look WHERE id = :id AND '' = :version RETURNING id;
