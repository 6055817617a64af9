-- name: list_indexes
-- An index whose build was interrupted exists but is invalid.
SELECT i.relname::text AS name, x.indisvalid AS is_valid
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_namespace n ON n.oid = i.relnamespace
WHERE n.nspname = 'gandy';

-- name: read_journal_mode
-- Differs from SQLite: a server always uses write-ahead logging.
SELECT 'wal' AS journal_mode;

-- name: count_overdue_runs
-- Runs kept by row that are long past their retention; counted up to a limit.
SELECT count(*) AS runs, min(keep_until) AS oldest_at FROM (
    SELECT keep_until FROM gandy.history_rowwise
    WHERE keep_until <= gandy.now() - make_interval(secs => %(grace_seconds)s::float8)
    ORDER BY keep_until LIMIT %(limit)s) overdue;

-- name: list_lost_letters
-- Failures beyond the limit of dead letters: counted, and dropped by design.
SELECT owner, substr(key, length('letters_not_written:') + 1) AS train, (value::text)::bigint AS letters, updated_at
FROM gandy.service_state
WHERE key LIKE 'letters_not_written:%%' AND updated_at > gandy.now() - make_interval(secs => %(window_seconds)s::float8)
  AND (%(owner)s::text IS NULL OR owner = %(owner)s) ORDER BY owner, key;

-- name: find_stray_runs
-- Their manifest does not refer to them: a second run could start concurrently.
SELECT r.id AS run_id, m.external_id AS manifest FROM gandy.work_queue r JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.status = 'dispatched' AND r.train_state IN ('pending', 'in_progress') AND m.active_run_id IS DISTINCT FROM r.id AND (%(owner)s::text IS NULL OR r.owner = %(owner)s)
ORDER BY r.id LIMIT %(limit)s;

-- name: find_unheld_runs
-- In progress without a live worker: it is lost, stopped or unknown, or its lease has expired.
SELECT r.id, r.owner, r.train_name AS train, r.worker_id, g.worker_state
FROM (SELECT h.worker_id, CASE WHEN w.state IS NULL THEN 'unknown' WHEN w.state IN ('stopped', 'lost') THEN w.state
                               ELSE 'silent' END AS worker_state
      FROM (SELECT DISTINCT worker_id FROM gandy.work_queue WHERE status = 'dispatched' AND train_state = 'in_progress') h
      LEFT JOIN LATERAL (SELECT state, lease_expires_at FROM gandy.worker WHERE id = h.worker_id LIMIT 1) w ON true
      WHERE w.state IS NULL OR w.state IN ('stopped', 'lost') OR w.lease_expires_at <= gandy.now()) g
JOIN gandy.work_queue r ON coalesce(r.worker_id, '') = coalesce(g.worker_id, '')
WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND (%(owner)s::text IS NULL OR r.owner = %(owner)s)
ORDER BY r.id LIMIT %(limit)s;
