-- name: find_manifests_of_jobs
-- The manifests of these jobs.
SELECT DISTINCT manifest_id AS id FROM work_queue
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner) AND manifest_id IS NOT NULL
ORDER BY manifest_id;

-- name: lock_entries
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT id, owner, status FROM work_queue
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner) ORDER BY id;

-- name: lock_live_runs
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT r.id, r.owner, r.train_name AS train, r.train_state AS state, r.worker_id, r.fence, r.manifest_id, r.unique_key
FROM work_queue r
WHERE r.id IN (SELECT value FROM json_each(:ids)) AND r.train_state IS NOT NULL
  AND (:owner IS NULL OR r.owner = :owner) ORDER BY r.id;

-- name: request_cancellations
-- An operator's cancellation overrides that of a timeout: the run is not retried.
UPDATE work_queue SET
    cancellation_requested = 1, cancellation_reason = 'operator',
    cancellation_requested_at = coalesce(cancellation_requested_at, gandy_now())
WHERE id IN (SELECT value FROM json_each(:ids)) AND train_state IS NOT NULL AND (:owner IS NULL OR owner = :owner)
RETURNING id;

-- name: look_at_manifests
-- The job that blocked their next occurrence is gone.
UPDATE manifest SET next_look_at = min(coalesce(next_look_at, gandy_now()), gandy_now())
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner) AND is_enabled AND orphaned_at IS NULL
RETURNING id, owner;

-- name: find_kept_runs
-- Which of these ids are runs that have ended.
SELECT id FROM history WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner);

-- name: newest_job
-- The end of a long walk (high-water mark): later jobs did not exist when it was requested.
SELECT seq AS id FROM sqlite_sequence WHERE name = 'work_queue';

-- name: find_group_jobs
-- The next queued, waiting or live jobs of a group.
SELECT id FROM work_queue
WHERE id > :after AND id <= :until AND status IN ('queued', 'waiting', 'dispatched') AND manifest_group_id = :group_id
  AND owner = :owner
ORDER BY id LIMIT :limit;
