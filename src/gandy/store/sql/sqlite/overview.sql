-- name: count_waiting
-- Entries to be dispatched, by gate; every count reads at most the limit.
SELECT 'open' AS gate, count(*) AS entries, count(*) AS seen FROM (
    SELECT 1 FROM work_queue WHERE owner = :owner AND status = 'queued' AND gate = 'open' LIMIT :limit) q
UNION ALL
SELECT 'time', count(*), count(*) FROM (
    SELECT 1 FROM work_queue INDEXED BY ix_work_queue_future
    WHERE owner = :owner AND status = 'queued' AND gate = 'time' LIMIT :limit) q
UNION ALL
SELECT 'manifest', count(*), count(*) FROM (
    SELECT 1 FROM work_queue INDEXED BY ix_work_queue_held
    WHERE owner = :owner AND status = 'queued' AND gate = 'manifest' LIMIT :limit) q
UNION ALL
SELECT 'train', count(*), count(*) FROM (
    SELECT 1 FROM work_queue WHERE owner = :owner AND status = 'queued' AND gate = 'train' LIMIT :limit) q
UNION ALL
SELECT 'turn', count(*), count(*) FROM (
    SELECT 1 FROM work_queue INDEXED BY ix_work_queue_waiting_owner
    WHERE owner = :owner AND status = 'waiting' LIMIT :limit) q;

-- name: count_live_runs
-- Live runs by state; every count reads at most the limit.
SELECT 'pending' AS state, count(*) AS runs, count(*) AS seen
FROM (SELECT 1 FROM work_queue INDEXED BY ix_work_queue_live_run
      WHERE status = 'dispatched' AND train_state = 'pending' AND owner = :owner LIMIT :limit) r
UNION ALL
SELECT 'in_progress', count(*), count(*)
FROM (SELECT 1 FROM work_queue INDEXED BY ix_work_queue_live_run
      WHERE status = 'dispatched' AND train_state = 'in_progress' AND owner = :owner LIMIT :limit) r;

-- name: list_live_runs
-- Runs in progress, the oldest id first; at most as many as are searched are sorted.
SELECT r.id, r.train_name AS train, m.external_id AS manifest, r.attempt, r.start_time, r.currently_running_junction,
       r.progress_done, r.progress_total, r.worker_id, r.cancellation_requested
FROM (SELECT * FROM work_queue INDEXED BY ix_work_queue_live_run
      WHERE status = 'dispatched' AND train_state = 'in_progress' AND owner = :owner LIMIT :searched) r
LEFT JOIN manifest m ON m.id = r.manifest_id
ORDER BY r.id LIMIT :limit;

-- name: list_lost_workers
-- Workers without a clean shutdown: lease expired and not marked lost yet, or lost within the last hour.
SELECT * FROM (
    SELECT id, host, pid, state, last_seen_at FROM worker
    WHERE owner = :owner AND state IN ('running', 'draining') AND lease_expires_at <= gandy_now()
    ORDER BY lease_expires_at LIMIT 20)
UNION ALL
SELECT * FROM (
    SELECT id, host, pid, state, last_seen_at FROM worker
    WHERE owner = :owner AND state IN ('stopped', 'lost') AND state = 'lost' AND last_seen_at > gandy_later(-3600)
    ORDER BY last_seen_at DESC LIMIT 20);

-- name: find_most_overdue
-- The manifest that has waited longest for its look; a healthy manager leaves none.
SELECT m.external_id, m.next_look_at FROM manifest m INDEXED BY ix_manifest_next_look
WHERE m.owner = :owner AND m.next_look_at IS NOT NULL AND m.next_look_at <= gandy_later(-:patience_seconds)
ORDER BY m.next_look_at LIMIT 1;
