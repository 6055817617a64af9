-- name: reset
TRUNCATE gandy.manifest, gandy.work_queue, gandy.dead_letter CASCADE

-- name: fill
-- Idle manifests, by the statement rather than by seeding: what is measured is the cycle beside them.
INSERT INTO gandy.manifest (
    external_id, owner, name, manifest_group_id, properties, property_type_name, schedule_type, interval_seconds,
    batch, declared, next_scheduled_run, next_look_at)
SELECT 'idle-' || lpad(n::text, 8, '0'), 'bench', 'sync_table', g.id, '{"table": "t"}', 'SyncInput', 'interval', 3600,
       'idle', '{}', gandy.now() + interval '1 day' + n * interval '1 ms', gandy.now() + interval '1 day' + n * interval '1 ms'
FROM generate_series(1, %(manifests)s) AS n, gandy.manifest_group g WHERE g.owner = 'bench' AND g.name = 'default'

-- name: fill_group
INSERT INTO gandy.manifest_group (owner, name) VALUES ('bench', 'default') ON CONFLICT DO NOTHING

-- name: fill_history
-- Finished runs of these manifests, in the partitions of the coming week.
INSERT INTO gandy.history (bucket, owner, name, train_state, manifest_id, due_at, created_at, start_time, end_time, keep_until)
SELECT (gandy.now() AT TIME ZONE 'UTC')::date + 1 + n %% 7, 'bench', 'sync_table', 'completed',
       1 + n %% greatest(1, %(manifests)s), now, now, now, now, now + interval '7 days'
FROM generate_series(1, %(runs)s) AS n, gandy.now() AS now

-- name: make_some_due
UPDATE gandy.manifest SET next_scheduled_run = gandy.now(), next_look_at = gandy.now()
WHERE id = ANY(ARRAY(SELECT id FROM gandy.manifest WHERE next_look_at > gandy.now() ORDER BY next_look_at LIMIT %s))

-- name: settle
DELETE FROM gandy.work_queue WHERE status = 'queued'
