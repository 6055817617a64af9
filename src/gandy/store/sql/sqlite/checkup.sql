-- name: list_indexes
-- Differs from PostgreSQL: an index that is there is valid.
SELECT name, 1 AS is_valid FROM sqlite_master WHERE type = 'index';

-- name: read_journal_mode
-- Without write-ahead logging readers and the writer block each other.
SELECT journal_mode FROM pragma_journal_mode;

-- name: count_overdue_runs
-- Runs long past their retention; counted up to a limit.
SELECT count(*) AS runs, min(keep_until) AS oldest_at FROM (
    SELECT keep_until FROM history WHERE keep_until <= gandy_later(-:grace_seconds) ORDER BY keep_until LIMIT :limit);

-- name: list_lost_letters
-- Failures beyond the limit of dead letters: counted, and dropped by design.
SELECT owner, substr(key, length('letters_not_written:') + 1) AS train, CAST(value AS INTEGER) AS letters, updated_at
FROM service_state
WHERE key LIKE 'letters_not_written:%' AND updated_at > gandy_later(-:window_seconds)
  AND (:owner IS NULL OR owner = :owner) ORDER BY owner, key;

-- name: find_stray_runs
-- Their manifest does not refer to them: a second run could start concurrently.
SELECT r.id AS run_id, m.external_id AS manifest
FROM work_queue r INDEXED BY ix_work_queue_live_run JOIN manifest m ON m.id = r.manifest_id
WHERE r.status = 'dispatched' AND r.train_state IN ('pending', 'in_progress') AND m.active_run_id IS NOT r.id AND (:owner IS NULL OR r.owner = :owner)
ORDER BY +r.id LIMIT :limit;

-- name: find_unheld_runs
-- In progress without a live worker: it is lost, stopped or unknown, or its lease has expired.
SELECT r.id, r.owner, r.train_name AS train, r.worker_id,
       CASE WHEN w.state IS NULL THEN 'unknown' WHEN w.state IN ('stopped', 'lost') THEN w.state ELSE 'silent' END AS worker_state
FROM work_queue r INDEXED BY ix_work_queue_live_run LEFT JOIN worker w ON w.id = r.worker_id
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND (:owner IS NULL OR r.owner = :owner)
  AND (w.state IS NULL OR w.state IN ('stopped', 'lost') OR w.lease_expires_at <= gandy_now())
ORDER BY +r.id LIMIT :limit;
