-- name: tick
-- Every due manifest of an interval schedule moves on, and its entry is queued, in one statement.
WITH clock AS MATERIALIZED (SELECT gandy.now() AS now),
due AS MATERIALIZED (
    SELECT m.id FROM gandy.manifest m, clock
    WHERE m.next_look_at <= clock.now AND m.is_enabled
    ORDER BY m.next_look_at, m.manifest_group_id FOR NO KEY UPDATE OF m SKIP LOCKED
), moved AS (
    UPDATE gandy.manifest m
    SET next_scheduled_run = m.next_scheduled_run + make_interval(secs => m.interval_seconds),
        next_look_at = m.next_scheduled_run + make_interval(secs => m.interval_seconds)
    FROM due WHERE m.id BETWEEN due.id AND due.id
    RETURNING m.id, m.owner, m.name, m.properties, m.property_type_name, m.manifest_group_id, m.priority,
              m.next_scheduled_run - make_interval(secs => m.interval_seconds) AS due_at
)
INSERT INTO gandy.work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, due_at, scheduled_at,
    created_at)
SELECT owner, name, properties, property_type_name, id, manifest_group_id, priority, 'schedule', due_at, due_at, now
FROM moved, clock

-- name: seed
INSERT INTO gandy.manifest (
    external_id, owner, name, manifest_group_id, properties, property_type_name, schedule_type, interval_seconds,
    batch, declared, next_scheduled_run, next_look_at)
SELECT s.external_id, 'bench', 'sync_table', %(group)s, s.properties::json, 'SyncInput', 'interval', 3600, 'sync',
       s.declared::json, now + interval '1 hour', now + interval '1 hour'
FROM unnest(%(ids)b::text[], %(properties)b::text[], %(declared)b::text[]) AS s (external_id, properties, declared),
     gandy.now() AS now
