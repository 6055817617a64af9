-- name: read_letters
-- The manifests to lock before these letters are changed, and the train that each would be requeued with.
SELECT l.id, l.owner, l.manifest_id, coalesce(m.name, l.train_name) AS train, l.status
FROM gandy.dead_letter l LEFT JOIN gandy.manifest m ON m.id = l.manifest_id
WHERE l.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR l.owner = %(owner)s) ORDER BY l.id;

-- name: resolve_letters
-- Of two concurrent operators one gets the row; the other finds it resolved.
WITH awaiting AS MATERIALIZED (
    SELECT id FROM gandy.dead_letter
    WHERE id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR owner = %(owner)s) AND status = 'awaiting_intervention'
    ORDER BY id FOR UPDATE
)
UPDATE gandy.dead_letter l SET
    status = %(status)s, resolved_at = gandy.now(), resolved_by = %(resolved_by)s, resolution_note = %(note)s
FROM awaiting WHERE l.id = awaiting.id AND l.status = 'awaiting_intervention'
RETURNING l.id, l.owner, l.manifest_id, l.dead_lettered_at;

-- name: reset_failures
-- Reset the failure count, and schedule a look at the occurrences that the letter held back.
UPDATE gandy.manifest m SET failure_count = 0, next_look_at = CASE
    WHEN m.is_enabled AND m.orphaned_at IS NULL THEN least(coalesce(m.next_look_at, gandy.now()), gandy.now())
    ELSE m.next_look_at END
WHERE m.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR m.owner = %(owner)s)
RETURNING m.id;

-- name: queue_letters
-- The job again with failure counts reset; if its manifest has a queued entry, that entry is reused.
INSERT INTO gandy.work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate, due_at, attempt,
    scheduled_at, max_retries, is_retried, retry_delay_seconds, timeout_seconds, retry_of, dead_letter_id, created_at)
SELECT l.owner, coalesce(m.name, l.train_name), coalesce(w.input::json, l.input), l.input_type_name, l.manifest_id,
       coalesce(m.manifest_group_id, l.manifest_group_id), coalesce(m.priority, l.priority), 'requeue',
       CASE WHEN m.active_run_id IS NOT NULL OR NOT m.is_enabled OR m.orphaned_at IS NOT NULL THEN 'manifest' ELSE 'open' END,
       coalesce(l.due_at, now.now),
       greatest(l.attempt, (SELECT max(q.attempt) FROM gandy.work_queue q
                            WHERE q.manifest_id = l.manifest_id AND q.due_at = l.due_at),
                -- of the newest runs only: the letter's own attempt is nearly always the last one
                (SELECT max(h.attempt) FROM (
                     SELECT due_at, attempt FROM gandy.history WHERE manifest_id = l.manifest_id
                     ORDER BY manifest_id DESC, id DESC LIMIT 100) h WHERE h.due_at = l.due_at)) + 1,
       now.now, l.max_retries, l.is_retried, l.retry_delay_seconds, l.timeout_seconds, l.metadata_id, l.id, now.now
FROM unnest(%(id)s::bigint[], %(input)s::text[]) AS w(id, input)
JOIN gandy.dead_letter l ON l.id = w.id AND (%(owner)s::text IS NULL OR l.owner = %(owner)s)
LEFT JOIN gandy.manifest m ON m.id = l.manifest_id,
     (SELECT gandy.now() AS now) now
ORDER BY l.id
ON CONFLICT DO NOTHING
RETURNING id, dead_letter_id AS letter_id, gate;

-- name: find_queued_for_letters
-- The queued entries of the letters' manifests, with both inputs: entries with an equal input are reused.
SELECT l.id AS letter_id, l.input AS letter_input, q.id, q.input
FROM gandy.dead_letter l JOIN gandy.work_queue q ON q.manifest_id = l.manifest_id AND q.status = 'queued'
WHERE l.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR l.owner = %(owner)s);

-- name: link_letters
-- Link the reused entry, so that its run is recorded on the letter.
UPDATE gandy.work_queue q SET dead_letter_id = l.id
FROM gandy.dead_letter l
WHERE l.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR l.owner = %(owner)s) AND q.manifest_id = l.manifest_id AND q.status = 'queued'
RETURNING q.id, l.id AS letter_id, q.gate;
