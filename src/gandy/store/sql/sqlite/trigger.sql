-- name: lock_manifest
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT m.id, m.external_id, m.owner, m.name AS train, m.properties, m.property_type_name, m.active_run_id,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.origin, m.orphaned_at IS NOT NULL AS is_orphaned
FROM manifest m JOIN manifest_group g ON g.id = m.manifest_group_id
WHERE m.owner = :owner AND m.external_id = :external_id;

-- name: queue_trigger
-- An operator's trigger: switched off or not, it waits only for its instant and for the active run.
WITH free AS (
    -- two triggers within one microsecond need different due_at values
    SELECT coalesce((
        SELECT gandy_seconds(max(q.due_at)) + 0.000001 FROM work_queue q WHERE q.manifest_id = :manifest_id AND q.attempt = 1
        AND q.due_at >= gandy_later(:delay_seconds) AND q.due_at < gandy_later(:delay_seconds + 0.001)), :delay_seconds) AS since
), neighbours AS (SELECT gandy_later(free.since + n.value) AS at FROM free, json_each('[0, 0.000001, 0.000002]') n)
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate, due_at,
    scheduled_at, created_at)
SELECT m.owner, m.name, :input, m.property_type_name, m.id, m.manifest_group_id, m.priority, 'trigger',
       CASE WHEN m.active_run_id IS NOT NULL THEN 'manifest' WHEN :delay_seconds > 0 THEN 'time' ELSE 'open' END,
       -- an instant that the schedule can name stays free for its own occurrence: the cursor, whole seconds of cron, the
       -- cursor and multiples of an interval; of three neighbours one is free
       (SELECT min(c.at) FROM neighbours c
        WHERE (c.at = m.next_scheduled_run
               OR m.schedule_type = 'cron' AND c.at LIKE '%.000000Z'
               OR m.schedule_type = 'interval' AND
                  CAST(round((gandy_seconds(c.at) - gandy_seconds(m.next_scheduled_run)) * 1000000) AS INTEGER)
                  % CAST(round(m.interval_seconds * 1000000) AS INTEGER) = 0) IS NOT TRUE),
       gandy_later(:delay_seconds), gandy_now()
FROM manifest m WHERE m.id = :manifest_id AND m.owner = :owner
ON CONFLICT DO NOTHING
RETURNING id, scheduled_at;

-- name: find_waiting
-- The queued entry of a manifest; there is at most one.
SELECT id, input, scheduled_at FROM work_queue
WHERE manifest_id = :manifest_id AND owner = :owner AND status = 'queued';

-- name: move_entry_earlier
-- Takes the earlier of two instants; if the manifest is switched off, the trigger opens the gate.
UPDATE work_queue SET
    scheduled_at = min(scheduled_at, gandy_later(:delay_seconds)),
    origin = CASE WHEN :is_off THEN 'trigger' ELSE origin END,
    gate = CASE WHEN gate = 'train' THEN 'train'
                WHEN (SELECT active_run_id FROM manifest m WHERE m.id = manifest_id) IS NOT NULL THEN 'manifest'
                WHEN min(scheduled_at, gandy_later(:delay_seconds)) > gandy_now() THEN 'time' ELSE 'open' END
WHERE id = :id AND owner = :owner AND status = 'queued'
RETURNING id, scheduled_at;
