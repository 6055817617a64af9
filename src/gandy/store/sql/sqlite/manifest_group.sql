-- name: ensure_groups
-- Finds or creates groups by name; the ids never change.
INSERT INTO manifest_group (owner, name, created_at, updated_at) VALUES (:owner, :name, gandy_now(), gandy_now())
ON CONFLICT (owner, name) DO NOTHING;
SELECT id, name, priority FROM manifest_group WHERE owner = :owner AND name = :name;

-- name: ready_groups
-- Loose index scan: one probe per group and train with ready work, regardless of the queue's length.
WITH RECURSIVE ready(id, train_name) AS (
    SELECT * FROM (SELECT manifest_group_id, train_name FROM work_queue
     WHERE owner = :owner AND status = 'queued' AND gate = 'open'
     ORDER BY manifest_group_id, train_name LIMIT 1)
    UNION ALL
    SELECT following.manifest_group_id, following.train_name FROM ready JOIN work_queue following ON following.id = coalesce(
        -- the next train of the same group, else the first train of the next group: each is one probe of the index
        (SELECT q.id FROM work_queue q
         WHERE q.owner = :owner AND q.status = 'queued' AND q.gate = 'open'
           AND q.manifest_group_id = ready.id AND q.train_name > ready.train_name
         ORDER BY q.train_name LIMIT 1),
        (SELECT q.id FROM work_queue q
         WHERE q.owner = :owner AND q.status = 'queued' AND q.gate = 'open' AND q.manifest_group_id > ready.id
         ORDER BY q.manifest_group_id, q.train_name LIMIT 1))
)
SELECT ready.id, ready.train_name, coalesce(g.priority, 0) AS priority, g.max_active_jobs,
       coalesce(g.is_enabled, true) AS is_enabled,
       (SELECT state FROM worker WHERE worker.id = :worker_id) AS worker_state
-- the group may have been pruned while the entry was written; it had no settings, so the defaults apply
FROM ready LEFT JOIN manifest_group g ON g.id = ready.id
ORDER BY coalesce(g.priority, 0) DESC, ready.id, ready.train_name;

-- name: lock_capped_groups
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT id FROM manifest_group WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: count_active_by_group
-- A separate statement after the lock: with the snapshot of the locking statement the count would exceed the cap.
SELECT manifest_group_id AS id, count(*) AS active FROM work_queue INDEXED BY ix_work_queue_live_run
WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND owner = :owner
  AND manifest_group_id IN (SELECT value FROM json_each(:ids))
GROUP BY manifest_group_id;

-- name: count_active
-- Reads only live runs, not history.
SELECT count(*) AS active FROM work_queue INDEXED BY ix_work_queue_live_run
WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND owner = :owner;

-- name: lock_global_cap
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT 1 AS is_held, :owner AS owner;
