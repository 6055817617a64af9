-- name: report_progress
-- The progress of runs, written only by the claims that own them (fence).
UPDATE gandy.work_queue r
SET progress_done = p.done, progress_total = p.total, currently_running_junction = p.junction,
    is_cancellation_ignored = r.is_cancellation_ignored OR p.ignores_cancellation
FROM unnest(%(run_id)s::bigint[], %(fence)s::bigint[], %(done)s::bigint[], %(total)s::bigint[], %(junction)s::text[],
            %(ignores_cancellation)s::bool[])
     AS p(run_id, fence, done, total, junction, ignores_cancellation)
WHERE r.id = p.run_id AND r.fence = p.fence AND r.train_state IS NOT NULL;

-- name: read_cancellations
-- Which of these runs must stop: an operator or a timeout cancelled it, or another process has ended it already.
SELECT i.id, CASE WHEN r.id IS NULL THEN 'lease_lost' ELSE r.cancellation_reason END AS cancellation_reason
FROM unnest(%(ids)s::bigint[]) AS i(id)
LEFT JOIN LATERAL (
    -- Written so that only the index on id can serve: with another one the planner would compare every pair.
    SELECT l.id, l.cancellation_requested, l.cancellation_reason FROM gandy.work_queue l
    WHERE l.id BETWEEN i.id AND i.id AND l.train_state IS NOT NULL LIMIT 1) r ON true
WHERE r.id IS NULL OR r.cancellation_requested;

-- name: summarise_runs
-- Counts and durations of the runs since an instant, with the number of their log lines: of live runs, and of the newest that ended.
SELECT r.name AS train, r.train_state AS state, count(*) AS runs,
       avg(extract(epoch FROM r.end_time - r.start_time)::float8) AS average_seconds,
       max(extract(epoch FROM r.end_time - r.start_time)::float8) AS longest_seconds,
       sum((SELECT count(*) FROM gandy.log l WHERE l.metadata_id = r.id)) AS lines
FROM (
    SELECT * FROM (
        SELECT id, owner, name, train_state, created_at, start_time, end_time FROM gandy.history
        ORDER BY id DESC LIMIT %(searched)s) h
    UNION ALL
    SELECT id, owner, train_name, train_state, dispatched_at, start_time, NULL::timestamptz FROM gandy.work_queue
    WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress')) r
WHERE r.owner = %(owner)s AND r.created_at >= %(since)s
GROUP BY r.name, r.train_state ORDER BY r.name, r.train_state;
