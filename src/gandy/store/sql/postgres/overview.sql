-- name: count_waiting
-- Entries to be dispatched, by gate; every count reads at most the limit.
SELECT 'open' AS gate, count(*) AS entries, count(*) AS seen FROM (
    SELECT 1 FROM gandy.work_queue WHERE owner = %(owner)s AND status = 'queued' AND gate = 'open' LIMIT %(limit)s) q
UNION ALL
SELECT 'time', count(*), count(*) FROM (
    SELECT 1 FROM gandy.work_queue WHERE owner = %(owner)s AND status = 'queued' AND gate = 'time'
    ORDER BY owner, scheduled_at LIMIT %(limit)s) q
UNION ALL
SELECT 'manifest', count(*), count(*) FROM (
    SELECT 1 FROM gandy.work_queue WHERE owner = %(owner)s AND status = 'queued' AND gate = 'manifest'
    ORDER BY owner, scheduled_at LIMIT %(limit)s) q
UNION ALL
SELECT 'train', count(*), count(*) FROM (
    SELECT 1 FROM gandy.work_queue WHERE owner = %(owner)s AND status = 'queued' AND gate = 'train' LIMIT %(limit)s) q
UNION ALL
SELECT 'turn', count(*), count(*) FROM (
    SELECT 1 FROM gandy.work_queue WHERE owner = %(owner)s AND status = 'waiting' ORDER BY owner, id LIMIT %(limit)s) q;

-- name: count_live_runs
-- Live runs by state; every count reads at most the limit.
SELECT 'pending' AS state, count(*) AS runs, count(*) AS seen
FROM (SELECT 1 FROM gandy.work_queue
      WHERE status = 'dispatched' AND train_state = 'pending' AND owner = %(owner)s LIMIT %(limit)s) r
UNION ALL
SELECT 'in_progress', count(*), count(*)
FROM (SELECT 1 FROM gandy.work_queue
      WHERE status = 'dispatched' AND train_state = 'in_progress' AND owner = %(owner)s LIMIT %(limit)s) r;

-- name: list_live_runs
-- Runs in progress, the oldest id first; at most as many as are searched are sorted.
SELECT r.id, r.train_name AS train, m.external_id AS manifest, r.attempt, r.start_time, r.currently_running_junction,
       r.progress_done, r.progress_total, r.worker_id, r.cancellation_requested
FROM (SELECT * FROM gandy.work_queue
      WHERE status = 'dispatched' AND train_state = 'in_progress' AND owner = %(owner)s LIMIT %(searched)s) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
ORDER BY r.id LIMIT %(limit)s;

-- name: list_lost_workers
-- Workers without a clean shutdown: lease expired and not marked lost yet, or lost within the last hour.
(SELECT id, host, pid, state, last_seen_at FROM gandy.worker
 WHERE owner = %(owner)s AND state IN ('running', 'draining') AND lease_expires_at <= gandy.now()
 ORDER BY lease_expires_at LIMIT 20)
UNION ALL
(SELECT id, host, pid, state, last_seen_at FROM gandy.worker
 WHERE owner = %(owner)s AND state IN ('stopped', 'lost') AND state = 'lost' AND last_seen_at > gandy.now() - interval '1 hour'
 ORDER BY last_seen_at DESC LIMIT 20);

-- name: find_most_overdue
-- The manifest that has waited longest for its look; a healthy manager leaves none.
SELECT m.external_id, m.next_look_at FROM gandy.manifest m
WHERE m.owner = %(owner)s AND m.next_look_at IS NOT NULL AND m.next_look_at <= gandy.now() - make_interval(secs => %(patience_seconds)s::float8)
ORDER BY m.next_look_at LIMIT 1;
