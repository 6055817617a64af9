-- name: lock_manifest
-- Queueing locks the manifest's row, so that the end of its run and its next entry cannot miss each other.
SELECT m.id, m.external_id, m.owner, m.name AS train, m.properties, m.property_type_name, m.active_run_id,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.origin, m.orphaned_at IS NOT NULL AS is_orphaned
FROM gandy.manifest m JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
WHERE m.owner = %(owner)s AND m.external_id = %(external_id)s FOR NO KEY UPDATE OF m;

-- name: queue_trigger
-- An operator's trigger: switched off or not, it waits only for its instant and for the active run.
INSERT INTO gandy.work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate, due_at,
    scheduled_at, created_at)
SELECT m.owner, m.name, %(input)s::json, m.property_type_name, m.id, m.manifest_group_id, m.priority, 'trigger',
       CASE WHEN m.active_run_id IS NOT NULL THEN 'manifest' WHEN t.at > t.now THEN 'time' ELSE 'open' END,
       -- an instant that the schedule can name stays free for its own occurrence: the cursor, whole seconds of cron, the
       -- cursor and multiples of an interval; of three neighbours one is free
       (SELECT min(c.at) FROM (SELECT free.since + n * interval '1 microsecond' AS at FROM generate_series(0, 2) n) c
        WHERE (c.at = m.next_scheduled_run
               OR m.schedule_type = 'cron' AND c.at = date_trunc('second', c.at)
               OR m.schedule_type = 'interval' AND mod(
                   extract(epoch FROM c.at - m.next_scheduled_run) * 1000000, m.interval_seconds::numeric * 1000000) = 0)
              IS NOT TRUE),
       t.at, t.now
FROM gandy.manifest m,
     (SELECT gandy.now() AS now, gandy.now() + make_interval(secs => %(delay_seconds)s::float8) AS at) t,
     -- two triggers within one microsecond need different due_at values
     LATERAL (SELECT coalesce((
         SELECT max(q.due_at) + interval '1 microsecond' FROM gandy.work_queue q
         WHERE q.manifest_id = m.id AND q.attempt = 1 AND q.due_at >= t.at AND q.due_at < t.at + interval '1 millisecond'),
         t.at) AS since) free
WHERE m.id = %(manifest_id)s AND m.owner = %(owner)s
ON CONFLICT DO NOTHING
RETURNING id, scheduled_at;

-- name: find_waiting
-- The queued entry of a manifest; there is at most one.
SELECT id, input, scheduled_at FROM gandy.work_queue
WHERE manifest_id = %(manifest_id)s AND owner = %(owner)s AND status = 'queued' FOR UPDATE;

-- name: move_entry_earlier
-- Takes the earlier of two instants; if the manifest is switched off, the trigger opens the gate.
UPDATE gandy.work_queue q SET
    scheduled_at = least(q.scheduled_at, t.at),
    origin = CASE WHEN %(is_off)s THEN 'trigger' ELSE q.origin END,
    gate = CASE WHEN q.gate = 'train' THEN 'train' WHEN m.active_run_id IS NOT NULL THEN 'manifest'
                WHEN least(q.scheduled_at, t.at) > t.now THEN 'time' ELSE 'open' END
FROM gandy.manifest m,
     (SELECT gandy.now() AS now, gandy.now() + make_interval(secs => %(delay_seconds)s::float8) AS at) t
WHERE q.id = %(id)s AND q.owner = %(owner)s AND q.status = 'queued' AND m.id = q.manifest_id
RETURNING q.id, q.scheduled_at;
