-- name: find_manifests_of_jobs
-- The manifests to lock first; an entry never changes its manifest.
SELECT DISTINCT manifest_id AS id FROM gandy.work_queue
WHERE id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR owner = %(owner)s) AND manifest_id IS NOT NULL
ORDER BY manifest_id;

-- name: lock_entries
-- No other transaction dispatches these or puts them back until this one ends.
SELECT id, owner, status FROM gandy.work_queue
WHERE id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR owner = %(owner)s) ORDER BY id FOR UPDATE;

-- name: lock_live_runs
-- Waits for concurrent claims and ends: the runs returned are still live.
SELECT r.id, r.owner, r.train_name AS train, r.train_state AS state, r.worker_id, r.fence, r.manifest_id, r.unique_key
FROM gandy.work_queue r
WHERE r.id = ANY(%(ids)s::bigint[]) AND r.train_state IS NOT NULL AND (%(owner)s::text IS NULL OR r.owner = %(owner)s)
ORDER BY r.id FOR UPDATE;

-- name: request_cancellations
-- An operator's cancellation overrides that of a timeout: the run is not retried.
UPDATE gandy.work_queue r SET
    cancellation_requested = true, cancellation_reason = 'operator',
    cancellation_requested_at = coalesce(r.cancellation_requested_at, gandy.now())
WHERE r.id = ANY(%(ids)s::bigint[]) AND r.train_state IS NOT NULL AND (%(owner)s::text IS NULL OR r.owner = %(owner)s)
RETURNING r.id;

-- name: look_at_manifests
-- The job that blocked their next occurrence is gone.
UPDATE gandy.manifest m SET next_look_at = least(coalesce(m.next_look_at, gandy.now()), gandy.now())
WHERE m.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR m.owner = %(owner)s) AND m.is_enabled AND m.orphaned_at IS NULL
RETURNING m.id, m.owner;

-- name: find_kept_runs
-- Which of these ids are runs that have ended.
SELECT DISTINCT id FROM gandy.history WHERE id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR owner = %(owner)s);

-- name: newest_job
-- The end of a long walk (high-water mark): later jobs did not exist when it was requested.
SELECT coalesce(max(id), 0) AS id FROM gandy.work_queue;

-- name: find_group_jobs
-- The next queued, waiting or live jobs of a group.
SELECT q.id FROM gandy.work_queue q
WHERE q.id > %(after)s AND q.id <= %(until)s AND q.status IN ('queued', 'waiting', 'dispatched')
  AND q.manifest_group_id = %(group_id)s AND q.owner = %(owner)s
ORDER BY q.id LIMIT %(limit)s;
