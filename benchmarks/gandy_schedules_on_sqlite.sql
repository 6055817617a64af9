-- name: empty_manifests
DELETE FROM manifest

-- name: empty_queue
DELETE FROM work_queue

-- name: empty_letters
DELETE FROM dead_letter

-- name: fill_group
INSERT INTO manifest_group (owner, name, created_at, updated_at) VALUES ('bench', 'default', :now, :now) ON CONFLICT DO NOTHING

-- name: fill
-- Idle manifests, by the statement rather than by seeding: what is measured is the cycle beside them.
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :manifests)
INSERT INTO manifest (
    external_id, owner, name, manifest_group_id, properties, property_type_name, schedule_type, interval_seconds,
    batch, declared, next_scheduled_run, next_look_at, created_at, updated_at)
SELECT printf('idle-%08d', n), 'bench', 'sync_table', g.id, '{"table": "t"}', 'SyncInput', 'interval', 3600,
       'idle', '{}', :tomorrow, :tomorrow, :now, :now
FROM number, manifest_group g WHERE g.owner = 'bench' AND g.name = 'default'

-- name: make_some_due
UPDATE manifest SET next_scheduled_run = :now, next_look_at = :now
WHERE id IN (SELECT id FROM manifest WHERE next_look_at > :now ORDER BY next_look_at LIMIT :manifests)

-- name: settle
DELETE FROM work_queue WHERE status = 'queued'
