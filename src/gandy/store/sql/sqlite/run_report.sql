-- name: report_progress
-- The progress of runs, written only by the claims that own them (fence).
UPDATE work_queue SET progress_done = :done, progress_total = :total, currently_running_junction = :junction,
    is_cancellation_ignored = is_cancellation_ignored OR :ignores_cancellation
WHERE id = :run_id AND fence = :fence AND train_state = 'in_progress';

-- name: read_cancellations
-- Which of these runs must stop: an operator or a timeout cancelled it, or another process has ended it already.
SELECT i.value AS id, CASE WHEN r.id IS NULL THEN 'lease_lost' ELSE r.cancellation_reason END AS cancellation_reason
FROM json_each(:ids) AS i
LEFT JOIN work_queue r ON r.id = i.value AND r.train_state IS NOT NULL
WHERE r.id IS NULL OR r.cancellation_requested;

-- name: summarise_runs
-- Counts and durations of the runs since an instant, with the number of their log lines: of live runs, and of the newest that ended.
SELECT r.name AS train, r.train_state AS state, count(*) AS runs,
       avg((julianday(r.end_time) - julianday(r.start_time)) * 86400.0) AS average_seconds,
       max((julianday(r.end_time) - julianday(r.start_time)) * 86400.0) AS longest_seconds,
       sum((SELECT count(*) FROM log l WHERE l.metadata_id = r.id)) AS lines
FROM (
    SELECT * FROM (
        SELECT id, owner, name, train_state, created_at, start_time, end_time FROM history
        ORDER BY id DESC LIMIT :searched)
    UNION ALL
    SELECT id, owner, train_name, train_state, dispatched_at, start_time, NULL FROM work_queue
    WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress')) r
WHERE r.owner = :owner AND r.created_at >= :since
GROUP BY r.name, r.train_state ORDER BY r.name, r.train_state;
