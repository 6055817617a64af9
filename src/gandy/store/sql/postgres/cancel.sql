-- name: find_manifests_of_jobs
-- The manifests to lock first; an entry or a run never changes its manifest.
SELECT DISTINCT manifest_id AS id FROM (
    SELECT q.manifest_id FROM gandy.work_queue q WHERE q.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR q.owner = %(owner)s)
    UNION ALL
    SELECT r.manifest_id FROM gandy.metadata_live r WHERE r.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR r.owner = %(owner)s)) j
WHERE manifest_id IS NOT NULL ORDER BY manifest_id;

-- name: lock_entries
-- No other transaction dispatches these or puts them back until this one ends.
SELECT id, owner, status FROM gandy.work_queue
WHERE id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR owner = %(owner)s) ORDER BY id FOR UPDATE;

-- name: lock_live_runs
-- Waits for concurrent claims and ends: the runs returned are still live.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, r.worker_id, r.fence, r.manifest_id, q.unique_key
FROM gandy.metadata_live r LEFT JOIN gandy.work_queue q ON q.id = r.id
WHERE r.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR r.owner = %(owner)s) ORDER BY r.id FOR UPDATE OF r;

-- name: request_cancellations
-- An operator's cancellation overrides that of a timeout: the run is not retried.
UPDATE gandy.metadata_live r SET
    cancellation_requested = true, cancellation_reason = 'operator',
    cancellation_requested_at = coalesce(r.cancellation_requested_at, gandy.now())
WHERE r.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR r.owner = %(owner)s)
RETURNING r.id;

-- name: look_at_manifests
-- The job that blocked their next occurrence is gone.
UPDATE gandy.manifest m SET next_look_at = least(coalesce(m.next_look_at, gandy.now()), gandy.now())
WHERE m.id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR m.owner = %(owner)s) AND m.is_enabled AND m.orphaned_at IS NULL
RETURNING m.id, m.owner;

-- name: find_kept_runs
-- Which of these ids are runs, also long after their end.
SELECT DISTINCT id FROM gandy.metadata WHERE id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR owner = %(owner)s);

-- name: newest_job
-- The end of a long walk (high-water mark): later jobs did not exist when it was requested.
SELECT coalesce(greatest((SELECT max(id) FROM gandy.work_queue), (SELECT max(id) FROM gandy.metadata_live)), 0) AS id;

-- name: find_group_jobs
-- The next queued, waiting or live jobs of a group.
SELECT j.id FROM (
    (SELECT q.id FROM gandy.work_queue q
     WHERE q.id > %(after)s AND q.id <= %(until)s AND q.status IN ('queued', 'waiting') AND q.manifest_group_id = %(group_id)s
       AND q.owner = %(owner)s
     ORDER BY q.id LIMIT %(limit)s)
    UNION
    (SELECT r.id FROM gandy.metadata_live r
     WHERE r.id > %(after)s AND r.id <= %(until)s AND r.manifest_group_id = %(group_id)s AND r.owner = %(owner)s
     ORDER BY r.id LIMIT %(limit)s)) j
ORDER BY j.id LIMIT %(limit)s;
