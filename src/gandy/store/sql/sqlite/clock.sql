-- name: find_newest_instant
-- The newest instant that any service wrote; instants in the future come from a clock that was wrong.
SELECT max(newest_at) AS newest_at FROM (
    SELECT max(updated_at) AS newest_at FROM service_state WHERE updated_at <= gandy_now()
    UNION ALL SELECT max(last_seen_at) FROM worker WHERE last_seen_at <= gandy_now()
    UNION ALL SELECT created_at FROM (SELECT created_at FROM work_queue ORDER BY id DESC LIMIT 1)
              WHERE created_at <= gandy_now()
    UNION ALL SELECT created_at FROM (SELECT created_at FROM manifest ORDER BY id DESC LIMIT 1)
              WHERE created_at <= gandy_now()
    UNION ALL SELECT created_at FROM (SELECT created_at FROM history ORDER BY id DESC LIMIT 1)
              WHERE created_at <= gandy_now());

-- name: load_far_cursors
-- One page of the manifests whose next look is far off, the furthest first.
SELECT v.* FROM manifest_dispatch v
WHERE v.id IN (
    SELECT id FROM manifest
    WHERE next_look_at > gandy_later(:far_seconds)
      AND (next_look_at, manifest_group_id, priority, id) < (:look_at, :group_id, :priority, :id)
    ORDER BY next_look_at DESC, manifest_group_id DESC, priority DESC, id DESC LIMIT :limit)
ORDER BY v.next_look_at DESC, v.group_id DESC, v.priority DESC, v.id DESC;

-- name: find_verdicts_ahead
-- The verdicts of future instants, the runs of such instants whose entries are gone, and the last skip, which may reach
-- into the future.
SELECT id, status, reason, origin, due_at, due_until FROM work_queue
WHERE manifest_id = :manifest_id AND due_at > :now AND attempt = 1
UNION ALL
SELECT r.id, 'dispatched', NULL, r.origin, r.due_at, NULL FROM (
    SELECT id, origin, due_at FROM history WHERE manifest_id = :manifest_id ORDER BY id DESC LIMIT :most_runs) r
WHERE r.due_at > :now AND r.origin = 'schedule'
UNION ALL
SELECT id, status, reason, origin, due_at, due_until FROM (
    SELECT id, status, reason, origin, due_at, due_until FROM work_queue
    WHERE manifest_id = :manifest_id AND due_at <= :now AND attempt = 1 AND status = 'skipped'
    ORDER BY due_at DESC LIMIT 1);

-- name: record_early_runs
-- Future instants that already ran while a clock was ahead, and whose entries are gone: a verdict for each, so that none
-- runs again; its retention counts from the instant.
INSERT INTO work_queue (
    owner, train_name, manifest_id, manifest_group_id, priority, status, reason, error, origin, due_at, due_until,
    scheduled_at, created_at, settled_at)
SELECT m.owner, m.name, m.id, m.manifest_group_id, m.priority, 'skipped', 'clock',
       'run ' || r.id || ' was made for this instant when a clock was ahead', 'schedule', r.due_at, r.due_at, r.due_at,
       gandy_now(), r.due_at
FROM manifest m, (
    SELECT id, due_at, origin FROM history WHERE manifest_id = :manifest_id ORDER BY id DESC LIMIT :most_runs) r
WHERE m.id = :manifest_id AND r.due_at > :now AND r.origin = 'schedule'
ON CONFLICT DO NOTHING;

-- name: put_cursor_right
-- Differs from PostgreSQL: the write lock replaces the version check. A later skip must not extend a verdict from before the move.
UPDATE manifest SET next_scheduled_run = :next_cursor, next_look_at = CASE WHEN is_enabled THEN :next_cursor END,
                    served_spans = :served_spans,
                    last_skip_id = NULL, last_skip_reason = NULL
WHERE id = :id AND next_scheduled_run IS :cursor AND '' = :version
RETURNING id;

-- name: withdraw_verdicts
-- Verdicts of future instants that did not become runs.
DELETE FROM work_queue WHERE id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'skipped') RETURNING id;

-- name: bring_entries_back
-- Entries with created_at in the future wait their intended delay from now on.
UPDATE work_queue SET
    scheduled_at = gandy_later(max(0, gandy_seconds(scheduled_at) - gandy_seconds(created_at))), created_at = gandy_now(),
    gate = CASE WHEN gate NOT IN ('open', 'time') THEN gate
                WHEN gandy_seconds(scheduled_at) > gandy_seconds(created_at) THEN 'time' ELSE 'open' END
WHERE status = 'queued' AND origin <> 'schedule' AND created_at > gandy_later(:far_seconds)
RETURNING id, owner;

-- name: end_far_leases
-- No lease lasts that long; a live worker renews it within seconds.
UPDATE worker SET lease_expires_at = gandy_now(), last_seen_at = min(last_seen_at, gandy_now())
WHERE lease_expires_at > gandy_later(:far_seconds) AND state IN ('running', 'draining')
RETURNING id;

-- name: bring_runs_back
-- Runs with start_time in the future start now, so that they can reach their deadline.
UPDATE work_queue SET
    deadline_at = gandy_later(gandy_seconds(deadline_at) - gandy_seconds(start_time)), start_time = gandy_now()
WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND start_time > gandy_later(:far_seconds)
RETURNING id;

-- name: bring_looks_back
-- Looks that an event scheduled in the future, or that were to follow an instant that has not come yet.
UPDATE manifest SET next_look_at = max(gandy_now(), coalesce(next_scheduled_run, gandy_now()))
WHERE next_look_at > gandy_now() AND (next_scheduled_run IS NULL OR next_scheduled_run < next_look_at)
   OR next_look_at IS NULL AND next_scheduled_run > gandy_now() AND is_enabled
RETURNING id;

-- name: look_again
-- Its instant was decided before, and there is no queued entry or run whose end would schedule the look.
UPDATE manifest SET next_look_at = gandy_now()
WHERE id IN (SELECT value FROM json_each(:ids)) AND next_look_at IS NULL AND active_run_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.manifest_id = manifest.id AND q.status = 'queued')
RETURNING id;
