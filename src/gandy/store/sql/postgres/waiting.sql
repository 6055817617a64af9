-- name: find_children
-- The manifests that runs activate; they are locked with their parents before the activations are judged.
SELECT DISTINCT m.id FROM unnest(%(parent_id)s::bigint[], %(external_id)s::text[]) AS a(parent_id, external_id)
JOIN gandy.manifest p ON p.id = a.parent_id
JOIN gandy.manifest m ON m.owner = p.owner AND m.external_id = a.external_id;

-- name: load_children
-- The data that decides whether an activation can be kept, and whether an entry with its input exists already.
SELECT m.id, m.external_id, m.name AS train, m.schedule_type, m.depends_on_manifest_id AS parent_id,
       (SELECT p.external_id FROM gandy.manifest p WHERE p.id = m.depends_on_manifest_id) AS parent,
       m.properties AS input,
       q.id AS queued_id, q.input AS queued_input, coalesce(q.scheduled_at <= gandy.now(), false) AS is_queued_due,
       (SELECT count(*) FROM (
           SELECT 1 FROM gandy.work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting' LIMIT %(limit)s) n) AS waiting
FROM gandy.manifest m LEFT JOIN gandy.work_queue q ON q.manifest_id = m.id AND q.status = 'queued'
WHERE m.id = ANY(%(ids)s::bigint[]);

-- name: find_equal_waiting
-- A waiting entry with an equal input; an entry of a later instant cannot be joined by an activation.
-- The digest contains the manifest id, so that only its own index can serve: another would read all waiting entries of it.
SELECT a.manifest_id, a.digest AS input_digest, w.id
FROM unnest(%(manifest_id)s::bigint[], %(digest)s::text[]) AS a(manifest_id, digest)
CROSS JOIN LATERAL (
    SELECT id FROM gandy.work_queue
    WHERE input_digest = a.manifest_id || ':' || a.digest AND status = 'waiting' AND scheduled_at <= gandy.now()
    LIMIT 1) w;

-- name: keep_activations
-- In the order in which the run requested them, each with a different due_at: two within one microsecond are two occurrences.
WITH child AS MATERIALIZED (
    SELECT m.id, m.owner, m.name, m.property_type_name, m.manifest_group_id, m.priority, now.now,
           coalesce((SELECT max(q.due_at) + interval '1 microsecond' FROM gandy.work_queue q
                     WHERE q.manifest_id = m.id AND q.due_at >= now.now AND q.due_at < now.now + interval '1 second'),
                    now.now) AS since
    FROM gandy.manifest m, (SELECT gandy.now() AS now) now WHERE m.id = ANY(%(manifest_id)s::bigint[])
)
INSERT INTO gandy.work_queue (
    owner, train_name, input, input_type_name, input_digest, manifest_id, manifest_group_id, priority, status, origin,
    due_at, scheduled_at, created_at)
SELECT c.owner, c.name, a.input::json, c.property_type_name, c.id || ':' || a.digest, c.id, c.manifest_group_id, c.priority, 'waiting', 'dormant',
       c.since + (row_number() OVER (PARTITION BY c.id ORDER BY a.place) - 1) * interval '1 microsecond', c.now, c.now
FROM unnest(%(manifest_id)s::bigint[], %(input)s::text[], %(digest)s::text[])
     WITH ORDINALITY AS a(manifest_id, input, digest, place)
JOIN child c ON c.id = a.manifest_id
ORDER BY a.place
RETURNING id, manifest_id, split_part(input_digest, ':', 2) AS input_digest;

-- name: promote_waiting
-- The first waiting entry of each manifest is queued, unless a guard blocks it: active, parked or about to be, switched off,
-- no longer declared. An operator's trigger passes all but the first, as it does in the queue.
-- The caller holds the manifests' locks.
WITH turn AS MATERIALIZED (
    SELECT w.id, m.manifest_group_id, m.priority
    FROM gandy.manifest m JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
    CROSS JOIN LATERAL (
        SELECT m.is_enabled AND g.is_enabled AND m.orphaned_at IS NULL
               AND NOT (m.is_retried AND m.failure_count >= greatest(1, m.max_retries))
               AND NOT EXISTS (SELECT 1 FROM gandy.dead_letter l
                               WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS is_open) guard
    -- two subqueries, so that each reads the first entry of an index: one filter for both would read all waiting entries
    CROSS JOIN LATERAL (SELECT CASE WHEN guard.is_open THEN (
        SELECT id FROM gandy.work_queue WHERE manifest_id = m.id AND status = 'waiting' ORDER BY id LIMIT 1) ELSE (
        SELECT id FROM gandy.work_queue WHERE manifest_id = m.id AND status = 'waiting' AND origin = 'trigger'
        ORDER BY id LIMIT 1) END AS id) w
    WHERE m.id = ANY(%(ids)s::bigint[]) AND m.active_run_id IS NULL
      AND (SELECT q.id FROM gandy.work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued') IS NULL
)
UPDATE gandy.work_queue q SET
    status = 'queued', gate = CASE WHEN q.scheduled_at > gandy.now() THEN 'time' ELSE 'open' END, input_digest = NULL,
    manifest_group_id = turn.manifest_group_id, priority = turn.priority
FROM turn WHERE q.id = turn.id AND q.status = 'waiting'
RETURNING q.id, q.owner, q.gate = 'open' AS is_ready;

-- name: find_queued_beside
-- The queued entry of a live run's manifest, with both inputs.
SELECT e.id, e.input, q.id AS queued_id, q.input AS queued_input
FROM gandy.work_queue e JOIN gandy.work_queue q ON q.manifest_id = e.manifest_id AND q.status = 'queued'
WHERE e.id = ANY(%(ids)s::bigint[]) AND e.status = 'dispatched';

-- name: step_back_entries
-- The id keeps its place in the order, before entries that were requested later.
UPDATE gandy.work_queue q SET status = 'waiting', gate = 'open', input_digest = q.manifest_id || ':' || s.digest
FROM unnest(%(id)s::bigint[], %(digest)s::text[]) AS s(id, digest)
WHERE q.id = s.id AND q.status = 'queued'
RETURNING q.id;

-- name: find_waiting_of_groups
-- The manifests of groups that have waiting entries, in the order in which they are locked.
SELECT m.id FROM gandy.manifest m
WHERE m.manifest_group_id = ANY(%(group_ids)s::bigint[]) AND m.owner = %(owner)s
  AND EXISTS (SELECT 1 FROM gandy.work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting')
ORDER BY m.id;

-- name: page_waiting_manifests
-- The manifests that have waiting entries, by loose index scan: one probe each.
WITH RECURSIVE waiting(id) AS (
    (SELECT manifest_id FROM gandy.work_queue WHERE status = 'waiting' AND manifest_id > %(after)s ORDER BY manifest_id LIMIT 1)
    UNION ALL
    SELECT (SELECT w.manifest_id FROM gandy.work_queue w WHERE w.status = 'waiting' AND w.manifest_id > waiting.id
            ORDER BY w.manifest_id LIMIT 1)
    FROM waiting WHERE waiting.id IS NOT NULL
)
SELECT waiting.id, EXISTS (SELECT 1 FROM gandy.manifest m WHERE m.id = waiting.id) AS has_manifest
FROM waiting WHERE waiting.id IS NOT NULL LIMIT %(limit)s;

-- name: cancel_stranded
-- Their manifest is gone, so they would never be promoted.
UPDATE gandy.work_queue SET status = 'cancelled', settled_at = gandy.now(), error = 'its manifest is gone'
WHERE manifest_id = ANY(%(manifest_ids)s::bigint[]) AND status = 'waiting'
RETURNING id;

-- name: find_stalled_turns
-- Manifests whose waiting entries wait for nothing, or for a state that does not end by itself.
WITH RECURSIVE waiting(id) AS (
    (SELECT manifest_id FROM gandy.work_queue WHERE status = 'waiting' ORDER BY manifest_id LIMIT 1)
    UNION ALL
    SELECT (SELECT w.manifest_id FROM gandy.work_queue w WHERE w.status = 'waiting' AND w.manifest_id > waiting.id
            ORDER BY w.manifest_id LIMIT 1)
    FROM waiting WHERE waiting.id IS NOT NULL
)
SELECT e.owner, m.external_id AS manifest, h.held_by, waiting.id AS manifest_id,
       (SELECT count(*) FROM (SELECT 1 FROM gandy.work_queue w WHERE w.manifest_id = waiting.id AND w.status = 'waiting'
                              LIMIT %(counted)s) n) AS entries
FROM waiting
CROSS JOIN LATERAL (SELECT owner, origin FROM gandy.work_queue WHERE manifest_id = waiting.id AND status = 'waiting'
                    ORDER BY manifest_id, id LIMIT 1) e
LEFT JOIN LATERAL (SELECT * FROM gandy.manifest WHERE id = waiting.id LIMIT 1) m ON true
LEFT JOIN LATERAL (SELECT is_enabled FROM gandy.manifest_group WHERE id = m.manifest_group_id LIMIT 1) g ON true
CROSS JOIN LATERAL (SELECT CASE
    WHEN m.id IS NULL THEN 'gone'
    WHEN m.active_run_id IS NOT NULL OR EXISTS (
        SELECT 1 FROM gandy.work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued') THEN NULL
    WHEN e.origin = 'trigger' THEN 'nothing'
    WHEN m.orphaned_at IS NOT NULL THEN 'orphaned'
    WHEN NOT (m.is_enabled AND g.is_enabled) THEN 'disabled'
    WHEN m.is_retried AND m.failure_count >= greatest(1, m.max_retries) OR EXISTS (
        SELECT 1 FROM gandy.dead_letter l WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') THEN NULL
    ELSE 'nothing' END AS held_by) h
WHERE waiting.id IS NOT NULL AND h.held_by IS NOT NULL AND (%(owner)s::text IS NULL OR e.owner = %(owner)s)
LIMIT %(limit)s;

-- name: find_queued_beside_ended
-- The same for runs that have ended.
SELECT h.id, h.input, q.id AS queued_id, q.input AS queued_input
FROM unnest(%(id)s::bigint[], %(bucket)s::text[]) AS e(id, bucket)
JOIN gandy.history h ON h.id = e.id AND h.bucket = split_part(e.bucket, '/', 1)::date AND h.piece = split_part(e.bucket, '/', 2)::smallint
JOIN gandy.work_queue q ON q.manifest_id = h.manifest_id AND q.status = 'queued';
