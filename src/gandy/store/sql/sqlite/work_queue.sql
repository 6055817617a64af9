-- name: queue_work
-- Ad-hoc entries; a future entry gets the gate 'time'.
INSERT INTO work_queue (
    id, owner, train_name, input, input_type_name, manifest_group_id, priority, origin, gate, due_at, scheduled_at,
    max_retries, is_retried, retry_delay_seconds, timeout_seconds, unique_key, created_at)
SELECT :id, :owner, :train_name, :input, :input_type_name, id, coalesce(:priority, priority), 'ad_hoc',
       CASE WHEN :delay_seconds > 0 THEN 'time' ELSE 'open' END,
       gandy_later(:delay_seconds), gandy_later(:delay_seconds),
       :max_retries, :is_retried, :retry_delay_seconds, :timeout_seconds, :unique_key, gandy_now()
FROM manifest_group WHERE owner = :owner AND name = :group
RETURNING id;

-- name: open_due
-- Opens the gate of entries whose instant has come; at most the limit, so that a flood is opened in batches.
UPDATE work_queue SET gate = 'open'
WHERE id IN (
    SELECT id FROM work_queue
    WHERE owner = :owner AND status = 'queued' AND gate = 'time' AND scheduled_at <= gandy_now()
    ORDER BY scheduled_at LIMIT :limit)
RETURNING id, owner;

-- name: next_due
-- The seconds that a loop may sleep.
SELECT gandy_seconds(scheduled_at) AS seconds FROM work_queue
WHERE owner = :owner AND status = 'queued' AND gate = 'time' ORDER BY scheduled_at LIMIT 1;

-- name: load_ready
-- Differs from PostgreSQL: SQLite has no LATERAL, so this runs once per group; the write lock is already held.
SELECT q.id, q.train_name, q.input, q.manifest_id, q.manifest_group_id, q.rank, q.origin,
       q.due_at, q.attempt, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds, q.failures,
       q.losses, q.lone_losses, q.unique_key, q.dead_letter_id, q.scheduled_at
FROM work_queue q
WHERE q.owner = :owner AND q.manifest_group_id = :group_id AND q.status = 'queued' AND q.gate = 'open'
  AND q.train_name IN (SELECT value FROM json_each(:trains)) AND q.scheduled_at <= gandy_later(-:min_age_seconds)
ORDER BY q.rank DESC, q.id LIMIT :share;

-- name: load_ready_of_trains
-- The same for a group that also has entries of trains that the claim cannot run: those are not read at all.
SELECT q.id, q.train_name, q.input, q.manifest_id, q.manifest_group_id, q.rank, q.origin,
       q.due_at, q.attempt, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds, q.failures,
       q.losses, q.lone_losses, q.unique_key, q.dead_letter_id, q.scheduled_at
FROM work_queue q
WHERE q.owner = :owner AND q.manifest_group_id = :group_id AND q.train_name = :train_name
  AND q.status = 'queued' AND q.gate = 'open' AND q.scheduled_at <= gandy_later(-:min_age_seconds)
ORDER BY q.rank DESC, q.id LIMIT :share;

-- name: close_early_heads
-- Differs from PostgreSQL: once per group and train. Closes gates that opened before their instant.
UPDATE work_queue SET gate = 'time'
WHERE id IN (
    SELECT e.id FROM (
        SELECT q.id, q.scheduled_at FROM work_queue q
        WHERE q.owner = :owner AND q.manifest_group_id = :group_id AND q.train_name = :train_name
          AND q.status = 'queued' AND q.gate = 'open'
        ORDER BY q.rank DESC, q.id LIMIT :limit) e
    WHERE e.scheduled_at > gandy_now())
RETURNING id;

-- name: load_triggered
-- Of a disabled group, only entries that an operator triggered.
SELECT q.id, q.train_name, q.input, q.manifest_id, q.manifest_group_id, q.rank, q.origin,
       q.due_at, q.attempt, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds, q.failures,
       q.losses, q.lone_losses, q.unique_key, q.dead_letter_id, q.scheduled_at
FROM work_queue q
WHERE q.owner = :owner AND q.manifest_group_id = :group_id AND q.status = 'queued' AND q.gate = 'open'
  AND q.origin = 'trigger' AND q.train_name IN (SELECT value FROM json_each(:trains))
  AND q.scheduled_at <= gandy_later(-:min_age_seconds)
ORDER BY q.rank DESC, q.id LIMIT :share;

-- name: dispatch_entries
-- Differs from PostgreSQL: SQLite has no data-modifying CTE, so the steps are separate statements of one transaction.
UPDATE sequence SET value = value + 1 WHERE name = 'fence' AND :worker_id IS NOT NULL;
UPDATE work_queue SET
    status = 'dispatched', dispatched_at = gandy_now(), metadata_id = id, start_time = gandy_now(),
    train_state = CASE WHEN :worker_id IS NULL THEN 'pending' ELSE 'in_progress' END,
    -- pending runs are claimed by group priority first, as the dispatcher chooses entries
    claim_rank = CASE WHEN :worker_id IS NULL THEN rank + 32 * coalesce((
        SELECT g.priority FROM manifest_group g WHERE g.id = work_queue.manifest_group_id), 0) END,
    -- more than about 126 years means no deadline (null); a larger value from an older version would overflow
    deadline_at = CASE WHEN timeout_seconds IS NULL AND manifest_id IS NULL
        THEN gandy_later(nullif(min(:default_timeout_seconds, 4e9), 4e9))
        ELSE gandy_later(nullif(min(coalesce(
            timeout_seconds, (SELECT m.timeout_seconds FROM manifest m WHERE m.id = work_queue.manifest_id),
            :default_timeout_seconds), 4e9), 4e9)) END,
    worker_id = :worker_id, fence = CASE WHEN :worker_id IS NOT NULL THEN (SELECT value FROM sequence WHERE name = 'fence') END
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'queued';
-- Most entries have no manifest, letter or key: the flags save reading every entry again.
UPDATE manifest SET active_run_id = d.id, last_run_id = d.id
FROM work_queue d WHERE :has_manifests AND d.id IN (SELECT value FROM json_each(:ids)) AND manifest.id = d.manifest_id;
UPDATE dead_letter SET retry_metadata_id = d.id
FROM work_queue d WHERE :has_letters AND d.id IN (SELECT value FROM json_each(:ids)) AND dead_letter.id = d.dead_letter_id;
DELETE FROM unique_key
WHERE :has_keys AND holder_id IN (SELECT value FROM json_each(:ids)) AND held_until = 'start' AND :worker_id IS NOT NULL;
SELECT CASE WHEN :worker_id IS NOT NULL THEN value END AS fence, gandy_now() AS started_at FROM sequence WHERE name = 'fence';

-- name: refuse_entries
-- Entries that the database refuses to turn into runs: skipped with the error, so that they do not block claims.
UPDATE work_queue SET status = 'skipped', reason = 'error', error = :error, settled_at = gandy_now()
WHERE id = :id AND status = 'queued'
RETURNING id, manifest_id;

-- name: hold_entries
-- The manifest is active or disabled: its entry leaves the index of ready entries until that changes.
UPDATE work_queue SET gate = 'manifest'
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'queued' AND gate <> 'manifest';

-- name: release_entries
-- The manifest's run is over, or it is enabled again: the entry is ready, or waits for its instant.
UPDATE work_queue SET gate = CASE WHEN scheduled_at > gandy_now() THEN 'time' ELSE 'open' END
WHERE manifest_id IN (SELECT value FROM json_each(:manifest_ids)) AND status = 'queued' AND gate = 'manifest'
  AND EXISTS (SELECT 1 FROM manifest m WHERE m.id = work_queue.manifest_id AND m.active_run_id IS NULL
              AND (work_queue.origin = 'trigger' OR m.is_enabled AND m.orphaned_at IS NULL))
RETURNING id, owner, gate = 'open' AS is_ready;

-- name: find_manifests_of_entries
-- The manifests of these entries.
SELECT DISTINCT manifest_id AS id FROM work_queue
WHERE id IN (SELECT value FROM json_each(:ids)) AND manifest_id IS NOT NULL ORDER BY manifest_id;

-- name: put_back_entries
-- Claimed runs that have not begun return to the queue with their keys; if their manifest has a queued entry, that entry is
-- reused. A run that an operator cancelled meanwhile is cancelled.
INSERT INTO unique_key (owner, key, holder_id, held_until)
SELECT q.owner, q.unique_key, q.id, 'start' FROM work_queue q
WHERE q.id IN (SELECT value FROM json_each(:ids)) AND q.worker_id = :worker_id AND q.train_state = 'in_progress'
  AND q.unique_key IS NOT NULL AND coalesce(q.cancellation_reason, '') <> 'operator'
ON CONFLICT DO NOTHING;
UPDATE manifest SET active_run_id = NULL FROM work_queue q
WHERE q.id IN (SELECT value FROM json_each(:ids)) AND q.worker_id = :worker_id AND q.train_state = 'in_progress'
  AND manifest.id = q.manifest_id AND manifest.active_run_id = q.id;
UPDATE work_queue SET
    status = CASE WHEN cancellation_reason = 'operator' THEN 'cancelled' WHEN EXISTS (
        SELECT 1 FROM work_queue w WHERE w.manifest_id = work_queue.manifest_id AND w.status = 'queued') THEN 'skipped'
        ELSE 'queued' END,
    reason = CASE WHEN coalesce(cancellation_reason, '') <> 'operator' AND EXISTS (
        SELECT 1 FROM work_queue w WHERE w.manifest_id = work_queue.manifest_id AND w.status = 'queued') THEN 'already_queued' END,
    train_name = coalesce((SELECT m.name FROM manifest m WHERE m.id = work_queue.manifest_id), train_name),
    gate = 'open', dispatched_at = NULL, metadata_id = NULL, train_state = NULL, start_time = NULL, deadline_at = NULL,
    worker_id = NULL, fence = NULL, cancellation_requested = 0, cancellation_reason = NULL, cancellation_requested_at = NULL,
    is_cancellation_ignored = 0, currently_running_junction = NULL, progress_done = NULL, progress_total = NULL, delivery_attempts = 0, deliver_after = NULL,
    delivery_error = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker_id = :worker_id AND train_state = 'in_progress'
RETURNING id, owner, manifest_id, status = 'cancelled' AS is_cancelled;

-- name: queue_retries
-- The next attempt of failed runs: with the run's own input and instant, and the manifest's current train. Nothing is
-- written if the manifest has a queued entry: the caller decides whether that entry is reused or steps back.
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate, due_at, attempt,
    scheduled_at, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failures, losses, lone_losses,
    unique_key, retry_of, parent_id, created_at)
SELECT h.owner, coalesce((SELECT m.name FROM manifest m WHERE m.id = h.manifest_id), h.name), h.input, h.input_type_name,
       h.manifest_id, h.manifest_group_id, h.priority, 'retry',
       CASE WHEN NOT :is_open THEN 'manifest' WHEN :delay_seconds > 0 THEN 'time' ELSE 'open' END,
       h.due_at, h.attempt + 1, gandy_later(:delay_seconds),
       h.max_retries, h.is_retried, h.retry_delay_seconds, h.timeout_seconds, :failures, :losses, :lone_losses,
       :unique_key, h.id, h.parent_id, gandy_now()
-- a run without an origin had no entry: its caller started it
FROM history h WHERE h.id = :id AND :bucket IS NULL AND h.origin IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING id, retry_of;

-- name: carry_losses
-- A queued entry is reused as the next attempt: it inherits the loss counts of the job.
UPDATE work_queue SET losses = max(losses, :losses), lone_losses = max(lone_losses, :lone_losses)
WHERE manifest_id = :manifest_id AND status = 'queued';

-- name: cancel_entries
-- Conditional: an entry that was dispatched meanwhile is cancelled as a run instead.
UPDATE work_queue SET status = 'cancelled', settled_at = gandy_now()
WHERE id IN (SELECT value FROM json_each(:ids)) AND (:owner IS NULL OR owner = :owner) AND status IN ('queued', 'waiting')
RETURNING id, manifest_id, unique_key;

-- name: hold_unknown_trains
-- Holds entries of trains that no live worker knows, at the top of each group, where they would block all others.
WITH RECURSIVE ready(id) AS (
    SELECT min(manifest_group_id) FROM work_queue WHERE owner = :owner AND status = 'queued' AND gate = 'open'
    UNION ALL
    SELECT (SELECT min(q.manifest_group_id) FROM work_queue q
            WHERE q.owner = :owner AND q.status = 'queued' AND q.gate = 'open' AND q.manifest_group_id > ready.id)
    FROM ready WHERE ready.id IS NOT NULL
)
UPDATE work_queue SET gate = 'train'
WHERE id IN (
    SELECT q.id FROM ready CROSS JOIN work_queue q ON q.id IN (
        SELECT top.id FROM work_queue top
        WHERE top.owner = :owner AND top.manifest_group_id = ready.id AND top.status = 'queued' AND top.gate = 'open'
        ORDER BY top.rank DESC, top.id LIMIT :limit)
    WHERE q.train_name NOT IN (SELECT value FROM json_each(:trains)))
RETURNING id;

-- name: release_known_trains
-- A worker that knows the train has registered.
UPDATE work_queue SET gate = CASE WHEN scheduled_at > gandy_now() THEN 'time' ELSE 'open' END
WHERE owner = :owner AND status = 'queued' AND gate = 'train' AND train_name IN (SELECT value FROM json_each(:trains))
RETURNING id;
