-- name: find_newest_instant
-- The newest instant that any service wrote; instants in the future come from a clock that was wrong.
SELECT greatest(
    (SELECT max(updated_at) FROM gandy.service_state WHERE updated_at <= gandy.now()),
    (SELECT max(last_seen_at) FROM gandy.worker WHERE last_seen_at <= gandy.now()),
    (SELECT max(q.created_at) FROM (SELECT created_at FROM gandy.work_queue ORDER BY id DESC LIMIT 1) q
     WHERE q.created_at <= gandy.now()),
    (SELECT max(h.created_at) FROM (SELECT created_at FROM gandy.history ORDER BY id DESC LIMIT 1) h
     WHERE h.created_at <= gandy.now()),
    (SELECT max(m.created_at) FROM (SELECT created_at FROM gandy.manifest ORDER BY id DESC LIMIT 1) m
     WHERE m.created_at <= gandy.now())) AS newest_at;

-- name: load_far_cursors
-- One page of the manifests whose next look is far off, the furthest first.
SELECT v.* FROM gandy.manifest_dispatch v
WHERE v.id = ANY(ARRAY(
    SELECT id FROM gandy.manifest
    WHERE next_look_at > gandy.now() + make_interval(secs => %(far_seconds)s::float8)
      AND (next_look_at, manifest_group_id, priority, id)
          < (%(look_at)s::timestamptz, %(group_id)s::bigint, %(priority)s::smallint, %(id)s::bigint)
    ORDER BY next_look_at DESC, manifest_group_id DESC, priority DESC, id DESC LIMIT %(limit)s))
ORDER BY v.next_look_at DESC, v.group_id DESC, v.priority DESC, v.id DESC;

-- name: find_verdicts_ahead
-- The verdicts of future instants, the runs of such instants, and the last skip, which may reach into the future.
SELECT id, status, reason, origin, due_at, due_until FROM gandy.work_queue
WHERE manifest_id = %(manifest_id)s AND due_at > %(now)s AND attempt = 1
UNION ALL
SELECT r.id, 'dispatched', NULL, r.origin, r.due_at, NULL FROM (
    SELECT id, origin, due_at FROM gandy.history WHERE manifest_id = %(manifest_id)s
    ORDER BY id DESC LIMIT %(most_runs)s) r
WHERE r.due_at > %(now)s AND r.origin = 'schedule'
UNION ALL
(SELECT id, status, reason, origin, due_at, due_until FROM gandy.work_queue
 WHERE manifest_id = %(manifest_id)s AND due_at <= %(now)s AND attempt = 1 AND status = 'skipped'
 ORDER BY due_at DESC LIMIT 1);

-- name: record_early_runs
-- Future instants that already ran while a clock was ahead: a verdict for each, so that none runs again; its retention
-- counts from the instant.
INSERT INTO gandy.work_queue (
    owner, train_name, manifest_id, manifest_group_id, priority, status, reason, error, origin, due_at, due_until,
    scheduled_at, created_at, settled_at)
SELECT m.owner, m.name, m.id, m.manifest_group_id, m.priority, 'skipped', 'clock',
       'run ' || r.id || ' was made for this instant when a clock was ahead', 'schedule', r.due_at, r.due_at, r.due_at,
       gandy.now(), r.due_at
FROM gandy.manifest m CROSS JOIN LATERAL (
    SELECT id, due_at, origin FROM gandy.history WHERE manifest_id = m.id ORDER BY id DESC LIMIT %(most_runs)s) r
WHERE m.id = %(manifest_id)s AND r.due_at > %(now)s AND r.origin = 'schedule'
ON CONFLICT DO NOTHING;

-- name: put_cursor_right
-- Clears last_skip_id: a later skip must not extend a verdict from before the move.
UPDATE gandy.manifest SET next_scheduled_run = %(next_cursor)s, next_look_at = CASE WHEN is_enabled THEN %(next_cursor)s::timestamptz END,
                          served_spans = %(served_spans)s::json, last_skip_id = NULL, last_skip_reason = NULL
WHERE id = %(id)s AND next_scheduled_run IS NOT DISTINCT FROM %(cursor)s::timestamptz AND xmin::text = %(version)s
RETURNING id;

-- name: withdraw_verdicts
-- Verdicts of future instants that did not become runs.
DELETE FROM gandy.work_queue WHERE id = ANY(%(ids)s::bigint[]) AND status IN ('queued', 'skipped') RETURNING id;

-- name: bring_entries_back
-- Entries with created_at in the future wait their intended delay from now on.
UPDATE gandy.work_queue SET
    scheduled_at = gandy.now() + greatest(scheduled_at - created_at, interval '0'), created_at = gandy.now(),
    gate = CASE WHEN gate NOT IN ('open', 'time') THEN gate WHEN scheduled_at > created_at THEN 'time' ELSE 'open' END
WHERE status = 'queued' AND origin <> 'schedule'
  AND created_at > gandy.now() + make_interval(secs => %(far_seconds)s::float8)
RETURNING id, owner;

-- name: end_far_leases
-- No lease lasts that long; a live worker renews it within seconds.
UPDATE gandy.worker SET lease_expires_at = gandy.now(), last_seen_at = least(last_seen_at, gandy.now())
WHERE lease_expires_at > gandy.now() + make_interval(secs => %(far_seconds)s::float8) AND state IN ('running', 'draining')
RETURNING id;

-- name: bring_runs_back
-- Runs with start_time in the future start now, so that they can reach their deadline.
UPDATE gandy.work_queue SET
    deadline_at = CASE WHEN isfinite(deadline_at) THEN gandy.now() + (deadline_at - start_time) ELSE deadline_at END,
    start_time = gandy.now()
WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND start_time > gandy.now() + make_interval(secs => %(far_seconds)s::float8)
RETURNING id;

-- name: bring_looks_back
-- Looks that an event scheduled in the future, or that were to follow an instant that has not come yet.
UPDATE gandy.manifest SET next_look_at = greatest(gandy.now(), next_scheduled_run)
WHERE next_look_at > gandy.now() AND (next_scheduled_run IS NULL OR next_scheduled_run < next_look_at)
   OR next_look_at IS NULL AND next_scheduled_run > gandy.now() AND is_enabled
RETURNING id;

-- name: look_again
-- Its instant was decided before, and there is no queued entry or run whose end would schedule the look.
UPDATE gandy.manifest m SET next_look_at = gandy.now()
WHERE m.id = ANY(%(ids)s::bigint[]) AND m.next_look_at IS NULL AND m.active_run_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM gandy.work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued')
RETURNING m.id;
