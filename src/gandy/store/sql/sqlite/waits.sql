-- name: load_waiting
-- What decides about entries that wait: the rows of their manifests, letters and groups.
SELECT q.id, q.owner, q.status, q.train_state, q.gate, q.origin, q.train_name AS train, q.rank, q.scheduled_at,
       q.manifest_id, q.manifest_group_id AS group_id, m.external_id AS manifest, m.is_enabled, m.disabled_reason,
       m.orphaned_at, m.active_run_id, m.is_retried AND m.failure_count >= max(1, m.max_retries) AS is_parking,
       g.name AS group_name, g.is_enabled AS is_group_enabled, g.disabled_reason AS group_disabled_reason, g.max_active_jobs,
       (SELECT l.id FROM dead_letter l WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS dead_letter_id,
       CASE WHEN q.status = 'waiting' THEN (
           SELECT o.id FROM work_queue o WHERE o.manifest_id = q.manifest_id AND o.status = 'queued') END AS queued_id
FROM work_queue q
LEFT JOIN manifest m ON m.id = q.manifest_id
LEFT JOIN manifest_group g ON g.id = q.manifest_group_id
WHERE q.id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR q.owner = :owner)
  AND (q.status IN ('queued', 'waiting') OR q.train_state = 'pending');

-- name: count_active_of_groups
-- The live runs of groups with a cap; reads only live runs.
SELECT r.manifest_group_id AS id, count(*) AS active FROM work_queue r
WHERE r.status = 'dispatched' AND r.train_state IN ('pending', 'in_progress') AND r.manifest_group_id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR r.owner = :owner)
GROUP BY r.manifest_group_id;

-- name: find_old_entries
-- Entries that have waited for long: the next of each group with ready work, and those that their manifests hold.
SELECT h.id FROM (
    SELECT g.owner, (
        SELECT q.id FROM work_queue q
        WHERE q.owner = g.owner AND q.manifest_group_id = g.id AND q.status = 'queued' AND q.gate = 'open'
        ORDER BY q.rank DESC, q.id LIMIT 1) AS id
    FROM manifest_group g WHERE (:owner IS NULL OR g.owner = :owner) ORDER BY g.owner, g.name LIMIT :searched) h
JOIN work_queue e ON e.id = h.id
WHERE e.scheduled_at <= gandy_later(-:patience_seconds)
UNION ALL
SELECT b.id FROM (
    SELECT id FROM work_queue INDEXED BY ix_work_queue_held
    WHERE owner = :owner AND status = 'queued' AND gate = 'manifest' AND scheduled_at <= gandy_later(-:patience_seconds)
    ORDER BY owner, scheduled_at LIMIT :limit) b
UNION ALL
-- of all owners: a condition on both would not be searched by the index
SELECT b.id FROM (
    SELECT id, scheduled_at FROM work_queue INDEXED BY ix_work_queue_held
    WHERE :owner IS NULL AND status = 'queued' AND gate = 'manifest' ORDER BY owner, scheduled_at LIMIT :searched) b
WHERE b.scheduled_at <= gandy_later(-:patience_seconds)
LIMIT :limit;
