-- name: ensure_groups
-- Finds or creates groups by name; the ids never change.
WITH wanted AS MATERIALIZED (
    SELECT DISTINCT name FROM pg_catalog.unnest(%(name)s::text[]) AS w(name)
), found AS MATERIALIZED (
    SELECT g.id, g.name, g.priority FROM wanted JOIN gandy.manifest_group g ON g.owner = %(owner)s AND g.name = wanted.name
), made AS (
    INSERT INTO gandy.manifest_group AS g (owner, name)
    SELECT %(owner)s, name FROM wanted WHERE name NOT IN (SELECT name FROM found) ORDER BY name
    -- DO UPDATE also returns a row that another transaction inserted after this statement's snapshot
    ON CONFLICT (owner, name) DO UPDATE SET name = excluded.name
    RETURNING g.id, g.name, g.priority
)
SELECT id, name, priority FROM found UNION ALL SELECT id, name, priority FROM made;

-- name: ready_groups
-- Loose index scan: one probe per group and train with ready work, regardless of the queue's length.
-- The claiming worker's row is locked before all else: a reaper marks it lost before the claim, or skips it until the claim
-- has ended. KEY SHARE, because the worker's own lease renewal must not wait for the claim.
WITH RECURSIVE worker AS MATERIALIZED (
    SELECT state FROM gandy.worker WHERE id = %(worker_id)s::text FOR KEY SHARE
), ready(id, train_name) AS (
    (SELECT manifest_group_id, train_name FROM gandy.work_queue
     WHERE owner = %(owner)s AND status = 'queued' AND gate = 'open'
     ORDER BY manifest_group_id, train_name LIMIT 1)
    UNION ALL
    SELECT following.manifest_group_id, following.train_name FROM ready CROSS JOIN LATERAL (
        SELECT q.manifest_group_id, q.train_name FROM gandy.work_queue q
        WHERE q.owner = %(owner)s AND q.status = 'queued' AND q.gate = 'open'
          AND (q.manifest_group_id, q.train_name) > (ready.id, ready.train_name)
        ORDER BY q.manifest_group_id, q.train_name LIMIT 1) following
)
SELECT ready.id, ready.train_name, coalesce(g.priority, 0) AS priority, g.max_active_jobs,
       coalesce(g.is_enabled, true) AS is_enabled, (SELECT state FROM worker) AS worker_state
-- the group may have been pruned while the entry was written; it had no settings, so the defaults apply
FROM ready LEFT JOIN gandy.manifest_group g ON g.id = ready.id
ORDER BY coalesce(g.priority, 0) DESC, ready.id, ready.train_name;

-- name: lock_capped_groups
-- A claim that cannot lock a group's row leaves the group to the claim that has it.
SELECT id FROM gandy.manifest_group WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;

-- name: count_active_by_group
-- A separate statement after the lock: with the snapshot of the locking statement the count would exceed the cap.
SELECT manifest_group_id AS id, count(*) AS active FROM gandy.work_queue
WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND owner = %(owner)s
  AND manifest_group_id = ANY(%(ids)s::bigint[])
GROUP BY manifest_group_id;

-- name: count_active
-- Reads only live runs, not history.
SELECT count(*) AS active FROM gandy.work_queue r
WHERE r.status = 'dispatched' AND r.train_state IN ('pending', 'in_progress') AND r.owner = %(owner)s;

-- name: lock_global_cap
-- A cap over all groups is exact only if one claim dispatches at a time.
SELECT pg_try_advisory_xact_lock(hashtext('gandy_global_cap'), hashtext(%(owner)s)) AS is_held;
