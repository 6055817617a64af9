-- name: find_children
-- The manifests that runs activate.
SELECT m.id FROM manifest p JOIN manifest m ON m.owner = p.owner AND m.external_id = :external_id WHERE p.id = :parent_id;

-- name: load_children
-- The data that decides whether an activation can be kept, and whether an entry with its input exists already.
SELECT m.id, m.external_id, m.name AS train, m.schedule_type, m.depends_on_manifest_id AS parent_id,
       (SELECT p.external_id FROM manifest p WHERE p.id = m.depends_on_manifest_id) AS parent,
       m.properties AS input,
       q.id AS queued_id, q.input AS queued_input, coalesce(q.scheduled_at <= gandy_now(), 0) AS is_queued_due,
       (SELECT count(*) FROM (
           SELECT 1 FROM work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting' LIMIT :limit) n) AS waiting
FROM manifest m LEFT JOIN work_queue q ON q.manifest_id = m.id AND q.status = 'queued'
WHERE m.id IN (SELECT value FROM json_each(:ids));

-- name: find_equal_waiting
-- A waiting entry with an equal input; an entry of a later instant cannot be joined by an activation.
SELECT manifest_id, :digest AS input_digest, id FROM work_queue
WHERE input_digest = :manifest_id || ':' || :digest AND status = 'waiting' AND scheduled_at <= gandy_now()
LIMIT 1;

-- name: keep_activations
-- In the order in which the run requested them, each with a different due_at: two within one microsecond are two occurrences.
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, input_digest, manifest_id, manifest_group_id, priority, status, origin,
    due_at, scheduled_at, created_at)
SELECT m.owner, m.name, :input, m.property_type_name, m.id || ':' || :digest, m.id, m.manifest_group_id, m.priority, 'waiting', 'dormant',
       coalesce(gandy_later(gandy_seconds((
           SELECT max(q.due_at) FROM work_queue q
           WHERE q.manifest_id = m.id AND q.due_at >= gandy_now() AND q.due_at < gandy_later(1))) + 0.000001), gandy_now()),
       gandy_now(), gandy_now()
FROM manifest m WHERE m.id = :manifest_id
RETURNING id, manifest_id, :digest AS input_digest;

-- name: promote_waiting
-- The first waiting entry of each manifest is queued, unless a guard blocks it: active, parked or about to be, switched off,
-- no longer declared. An operator's trigger passes all but the first, as it does in the queue.
UPDATE work_queue SET
    status = 'queued', gate = CASE WHEN scheduled_at > gandy_now() THEN 'time' ELSE 'open' END, input_digest = NULL,
    (manifest_group_id, priority) = (SELECT m.manifest_group_id, m.priority FROM manifest m WHERE m.id = work_queue.manifest_id)
WHERE id IN (
    SELECT CASE WHEN m.is_enabled AND g.is_enabled AND m.orphaned_at IS NULL
                     AND NOT (m.is_retried AND m.failure_count >= max(1, m.max_retries))
                     AND NOT EXISTS (SELECT 1 FROM dead_letter l
                                     WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention')
           THEN (SELECT min(w.id) FROM work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting')
           ELSE (SELECT min(w.id) FROM work_queue w
                 WHERE w.manifest_id = m.id AND w.status = 'waiting' AND w.origin = 'trigger') END
    FROM json_each(:ids) e CROSS JOIN manifest m ON m.id = e.value CROSS JOIN manifest_group g ON g.id = m.manifest_group_id
    WHERE m.active_run_id IS NULL
      AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued'))
RETURNING id, owner, gate = 'open' AS is_ready;

-- name: find_queued_beside
-- The queued entry of a run's manifest, with both inputs.
SELECT e.id, e.input, q.id AS queued_id, q.input AS queued_input
FROM work_queue e JOIN work_queue q ON q.manifest_id = e.manifest_id AND q.status = 'queued'
WHERE e.id IN (SELECT value FROM json_each(:ids)) AND e.status = 'dispatched';

-- name: step_back_entries
-- The id keeps its place in the order, before entries that were requested later.
UPDATE work_queue SET status = 'waiting', gate = 'open', input_digest = manifest_id || ':' || :digest WHERE id = :id AND status = 'queued'
RETURNING id;

-- name: find_waiting_of_groups
-- The manifests of groups that have waiting entries.
SELECT m.id FROM manifest m
WHERE m.manifest_group_id IN (SELECT value FROM json_each(:group_ids)) AND m.owner = :owner
  AND EXISTS (SELECT 1 FROM work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting')
ORDER BY m.id;

-- name: page_waiting_manifests
-- The manifests that have waiting entries, by loose index scan: one probe each.
WITH RECURSIVE waiting(id) AS (
    SELECT min(manifest_id) FROM work_queue WHERE status = 'waiting' AND manifest_id > :after
    UNION ALL
    SELECT (SELECT min(w.manifest_id) FROM work_queue w WHERE w.status = 'waiting' AND w.manifest_id > waiting.id)
    FROM waiting WHERE waiting.id IS NOT NULL
)
SELECT waiting.id, EXISTS (SELECT 1 FROM manifest m WHERE m.id = waiting.id) AS has_manifest
FROM waiting WHERE waiting.id IS NOT NULL LIMIT :limit;

-- name: cancel_stranded
-- Their manifest is gone, so they would never be promoted.
UPDATE work_queue SET status = 'cancelled', settled_at = gandy_now(), error = 'its manifest is gone'
WHERE manifest_id IN (SELECT value FROM json_each(:manifest_ids)) AND status = 'waiting'
RETURNING id;

-- name: find_stalled_turns
-- Manifests whose waiting entries wait for nothing, or for a state that does not end by itself.
WITH RECURSIVE waiting(id) AS (
    SELECT min(manifest_id) FROM work_queue WHERE status = 'waiting'
    UNION ALL
    SELECT (SELECT min(w.manifest_id) FROM work_queue w WHERE w.status = 'waiting' AND w.manifest_id > waiting.id)
    FROM waiting WHERE waiting.id IS NOT NULL
)
SELECT e.owner, m.external_id AS manifest, e.manifest_id,
       CASE WHEN m.id IS NULL THEN 'gone' WHEN e.origin = 'trigger' THEN 'nothing'
            WHEN m.orphaned_at IS NOT NULL THEN 'orphaned'
            WHEN NOT (m.is_enabled AND g.is_enabled) THEN 'disabled' ELSE 'nothing' END AS held_by,
       (SELECT count(*) FROM (SELECT 1 FROM work_queue w WHERE w.manifest_id = e.manifest_id AND w.status = 'waiting'
                              LIMIT :counted) n) AS entries
FROM waiting CROSS JOIN work_queue e ON e.id = (
    SELECT min(w.id) FROM work_queue w WHERE w.manifest_id = waiting.id AND w.status = 'waiting')
LEFT JOIN manifest m ON m.id = waiting.id LEFT JOIN manifest_group g ON g.id = m.manifest_group_id
WHERE waiting.id IS NOT NULL AND (:owner IS NULL OR e.owner = :owner)
  AND (m.id IS NULL OR m.active_run_id IS NULL
       AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued')
       AND (e.origin = 'trigger' OR m.orphaned_at IS NOT NULL OR NOT (m.is_enabled AND g.is_enabled)
            OR NOT (m.is_retried AND m.failure_count >= max(1, m.max_retries)) AND NOT EXISTS (
                SELECT 1 FROM dead_letter l WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention')))
LIMIT :limit;

-- name: find_queued_beside_ended
-- The same for a run that has ended.
SELECT h.id, h.input, q.id AS queued_id, q.input AS queued_input
FROM history h JOIN work_queue q ON q.manifest_id = h.manifest_id AND q.status = 'queued'
WHERE h.id = :id AND :bucket IS NULL;
