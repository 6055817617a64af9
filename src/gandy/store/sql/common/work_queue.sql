-- name: list_queue_heads
-- The next entry of each group with ready work; its waiting time is the lag of the queue.
SELECT h.name, h.max_active_jobs, h.is_enabled, h.scheduled_at FROM (
    SELECT g.name, g.max_active_jobs, g.is_enabled,
           (SELECT q.scheduled_at FROM gandy.work_queue q
            WHERE q.owner = g.owner AND q.manifest_group_id = g.id AND q.status = 'queued' AND q.gate = 'open'
            ORDER BY q.rank DESC, q.id LIMIT 1) AS scheduled_at
    FROM gandy.manifest_group g WHERE g.owner = :owner ORDER BY g.name LIMIT :limit) h
WHERE h.scheduled_at IS NOT NULL ORDER BY h.scheduled_at LIMIT 5;

-- name: list_unknown_trains
-- Entries of trains that no live worker knows.
SELECT q.train_name AS train, count(*) AS entries FROM (
    SELECT train_name FROM gandy.work_queue
    WHERE owner = :owner AND status = 'queued' AND gate = 'train' LIMIT :limit) q
GROUP BY q.train_name ORDER BY q.train_name LIMIT 20;

-- name: count_held_trains
-- Entries of trains that no live worker knows, of one owner or of all: one of the two parts is empty.
SELECT owner, train_name AS train, count(*) AS entries FROM (
    SELECT * FROM (
        SELECT owner, train_name FROM gandy.work_queue
        WHERE status = 'queued' AND gate = 'train' AND owner = :owner ORDER BY owner, train_name LIMIT :limit) of_one
    UNION ALL
    SELECT * FROM (
        SELECT owner, train_name FROM gandy.work_queue
        WHERE status = 'queued' AND gate = 'train' AND :owner::text IS NULL ORDER BY owner, train_name LIMIT :limit) of_all) held
GROUP BY owner, train_name ORDER BY owner, train_name;

-- name: list_verdicts
-- The verdicts of a manifest, latest instant first; those of ended runs are in history.
SELECT v.id, v.due_at, v.due_until, v.occurrences, v.status, v.reason, v.error, v.origin, v.attempt, v.scheduled_at, v.dispatched_at
FROM (
    SELECT q.id, q.due_at, q.due_until, q.occurrences, q.status, q.reason, q.error, q.origin, q.attempt, q.scheduled_at,
           q.dispatched_at
    FROM gandy.work_queue q WHERE q.manifest_id = :manifest_id AND q.owner = :owner
    UNION ALL
    SELECT h.id, h.due_at, NULL, 1, 'dispatched', NULL, NULL, h.origin, h.attempt, coalesce(h.scheduled_at, h.due_at), h.created_at
    FROM (SELECT id, due_at, origin, attempt, scheduled_at, created_at FROM gandy.history
          WHERE manifest_id = :manifest_id AND owner = :owner
          ORDER BY manifest_id DESC, id DESC LIMIT :limit) h) v
ORDER BY v.due_at DESC, v.attempt DESC LIMIT :limit;

-- name: shorten_verdict
-- Cuts a skip that reaches into the future back to the instants that have come.
UPDATE gandy.work_queue SET due_until = :due_until, occurrences = :occurrences WHERE id = :id AND status = 'skipped';

-- name: record_moved_cursor
-- A verdict that records the move itself; attempt 0, so that it conflicts with no instant.
INSERT INTO gandy.work_queue (
    owner, train_name, manifest_id, manifest_group_id, priority, status, reason, error, origin, due_at, due_until,
    attempt, scheduled_at, created_at, settled_at)
SELECT owner, name, id, manifest_group_id, priority, 'skipped', 'clock', :error, 'schedule', :now, :now, 0, :now,
       gandy.now(), gandy.now()
FROM gandy.manifest WHERE id = :id
ON CONFLICT DO NOTHING;

-- name: close_early_entries
-- Closes gates that were opened before their instant.
UPDATE gandy.work_queue SET gate = 'time'
WHERE status = 'queued' AND gate = 'open' AND scheduled_at > gandy.now()
RETURNING id;

-- name: cancel_waiting
-- The queued and waiting entries of a manifest are cancelled with it.
UPDATE gandy.work_queue SET status = 'cancelled', settled_at = gandy.now()
WHERE manifest_id = :manifest_id AND owner = :owner AND status IN ('queued', 'waiting') RETURNING id;

-- name: keep_answer
-- Records the job that the request created.
UPDATE gandy.unique_key SET holder_id = :holder_id WHERE owner = :owner AND key = :key;

-- name: count_pending
-- Runs that were dispatched and have not begun.
SELECT count(*) AS pending FROM (
    SELECT 1 FROM gandy.work_queue WHERE owner = :owner AND train_state = 'pending' LIMIT :limit) waiting;

-- name: find_live_job
-- Whether a job is still queued or live; reads no history, so that frequent polling is cheap.
SELECT q.id, q.train_name AS train, coalesce(q.train_state, q.status) AS state
FROM gandy.work_queue q WHERE q.id = :id AND (:owner::text IS NULL OR q.owner = :owner);
