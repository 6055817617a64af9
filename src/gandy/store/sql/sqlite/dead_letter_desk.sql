-- name: read_letters
-- The manifests of these letters, and the train that each would be requeued with.
SELECT l.id, l.owner, l.manifest_id, coalesce(m.name, l.train_name) AS train, l.status
FROM dead_letter l LEFT JOIN manifest m ON m.id = l.manifest_id
WHERE l.id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR l.owner = :owner) ORDER BY l.id;

-- name: resolve_letters
-- Of two concurrent operators one gets the row; the other finds it resolved.
UPDATE dead_letter SET status = :status, resolved_at = gandy_now(), resolved_by = :resolved_by, resolution_note = :note
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner) AND status = 'awaiting_intervention'
RETURNING id, owner, manifest_id, dead_lettered_at;

-- name: reset_failures
-- Reset the failure count, and schedule a look at the occurrences that the letter held back.
UPDATE manifest SET failure_count = 0, next_look_at = CASE
    WHEN is_enabled AND orphaned_at IS NULL THEN min(coalesce(next_look_at, gandy_now()), gandy_now())
    ELSE next_look_at END
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner)
RETURNING id;

-- name: queue_letters
-- The job again with failure counts reset; if its manifest has a queued entry, that entry is reused.
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate, due_at, attempt,
    scheduled_at, max_retries, is_retried, retry_delay_seconds, timeout_seconds, retry_of, dead_letter_id, created_at)
SELECT l.owner, coalesce(m.name, l.train_name), coalesce(:input, l.input), l.input_type_name, l.manifest_id,
       coalesce(m.manifest_group_id, l.manifest_group_id), coalesce(m.priority, l.priority), 'requeue',
       CASE WHEN m.active_run_id IS NOT NULL OR NOT m.is_enabled OR m.orphaned_at IS NOT NULL THEN 'manifest' ELSE 'open' END,
       coalesce(l.due_at, gandy_now()),
       max(l.attempt, coalesce((SELECT max(q.attempt) FROM work_queue q
                                WHERE q.manifest_id = l.manifest_id AND q.due_at = l.due_at), 0),
           -- of the newest runs only: the letter's own attempt is nearly always the last one
           coalesce((SELECT max(h.attempt) FROM (
               SELECT due_at, attempt FROM history WHERE manifest_id = l.manifest_id
               ORDER BY id DESC LIMIT 100) h WHERE h.due_at = l.due_at), 0)) + 1,
       gandy_now(), l.max_retries, l.is_retried, l.retry_delay_seconds, l.timeout_seconds, l.metadata_id, l.id, gandy_now()
FROM dead_letter l LEFT JOIN manifest m ON m.id = l.manifest_id WHERE l.id = :id AND (:owner IS NULL OR l.owner = :owner)
ON CONFLICT DO NOTHING
RETURNING id, dead_letter_id AS letter_id, gate;

-- name: find_queued_for_letters
-- The queued entries of the letters' manifests, with both inputs: entries with an equal input are reused.
SELECT l.id AS letter_id, l.input AS letter_input, q.id, q.input
FROM dead_letter l JOIN work_queue q ON q.manifest_id = l.manifest_id AND q.status = 'queued'
WHERE l.id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR l.owner = :owner);

-- name: link_letters
-- Link the reused entry, so that its run is recorded on the letter.
UPDATE work_queue SET dead_letter_id = (
    SELECT l.id FROM dead_letter l
    WHERE l.manifest_id = work_queue.manifest_id AND l.id IN (SELECT value FROM json_each(:ids)))
WHERE status = 'queued' AND (:owner IS NULL OR owner = :owner) AND manifest_id IN (
    SELECT manifest_id FROM dead_letter WHERE id IN (SELECT value FROM json_each(:ids)))
RETURNING id, dead_letter_id AS letter_id, gate;
