-- name: lock_idle_manifests
-- Never waits: a manifest that is locked elsewhere is claimed there, or next time.
SELECT id, external_id, active_run_id, timeout_seconds, is_enabled AND orphaned_at IS NULL AS is_open FROM gandy.manifest
WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;

-- name: lock_manifests
-- In the order of ids, before any of their runs is changed: a fixed lock order against deadlocks.
SELECT id, external_id, failure_count, max_retries, is_retried, retry_delay_seconds, keep_for_seconds,
       is_enabled AND orphaned_at IS NULL AS is_open
FROM gandy.manifest WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: read_failing
-- The retry policy of a manifest whose run failed, with whether that run had the manifest's own input.
SELECT m.id, m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.exclusions::text AS exclusions,
       m.next_scheduled_run, m.failure_count, m.max_retries, m.is_retried, m.retry_delay_seconds, m.first_failed_at,
       m.is_enabled AND m.orphaned_at IS NULL AND coalesce(g.is_enabled, true) AS is_on,
       h.id IS NULL OR h.input::text IS NOT DISTINCT FROM m.properties::text AS is_own_input, gandy.now() AS now
FROM unnest(%(manifest_id)s::bigint[], %(run_id)s::bigint[], %(bucket)s::text[]) AS f(manifest_id, run_id, bucket)
JOIN gandy.manifest m ON m.id = f.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
LEFT JOIN gandy.history h ON h.id = f.run_id AND h.bucket = split_part(f.bucket, '/', 1)::date AND h.piece = split_part(f.bucket, '/', 2)::smallint;

-- name: record_manifest_ends
-- All that decides about the next run is kept on the manifest, so that history may be pruned.
UPDATE gandy.manifest m SET
    active_run_id = NULL,
    success_count = m.success_count + (e.state = 'completed')::int,
    final_failure_count = m.final_failure_count + coalesce(e.ended = 'failure', false)::int,
    end_count = m.end_count + (e.ended IS NOT NULL)::int,
    last_final_failure_id = CASE WHEN e.ended = 'failure' THEN e.run_id ELSE m.last_final_failure_id END,
    failure_count = CASE WHEN e.state = 'completed' THEN 0 WHEN e.is_counted THEN m.failure_count + 1 ELSE m.failure_count END,
    first_failed_at = CASE WHEN NOT e.is_counted THEN m.first_failed_at WHEN m.failure_count = 0 THEN gandy.now()
                           ELSE coalesce(m.first_failed_at, gandy.now()) END,
    last_failed_run_id = CASE WHEN e.state = 'failed' THEN e.run_id ELSE m.last_failed_run_id END,
    last_successful_run_id = CASE WHEN e.state = 'completed' THEN e.run_id ELSE m.last_successful_run_id END,
    last_successful_run = CASE WHEN e.state = 'completed' THEN gandy.now() ELSE m.last_successful_run END,
    completed_at = CASE WHEN e.state = 'completed' AND m.schedule_type = 'once' AND m.next_scheduled_run IS NULL
                        THEN gandy.now() ELSE m.completed_at END,
    has_dependents_due = m.has_dependents_due OR (e.ended IS NOT NULL AND EXISTS (
        SELECT 1 FROM gandy.manifest_edge d WHERE d.parent_id = m.id AND d.kind IN (e.ended, 'end'))),
    next_look_at = CASE WHEN e.needs_look OR m.schedule_type = 'dependent' OR m.next_scheduled_run <= gandy.now()
                        THEN least(coalesce(m.next_look_at, gandy.now()), gandy.now()) ELSE m.next_look_at END
FROM unnest(%(manifest_id)s::bigint[], %(run_id)s::bigint[], %(state)s::text[], %(ended)s::text[], %(is_counted)s::bool[], %(needs_look)s::bool[])
     AS e(manifest_id, run_id, state, ended, is_counted, needs_look)
WHERE m.id = e.manifest_id AND m.active_run_id = e.run_id
RETURNING m.id, m.owner, e.ended = 'success' AND (m.has_dependents_due AND EXISTS (
            SELECT 1 FROM gandy.manifest_edge d WHERE d.parent_id = m.id AND d.kind = 'success' AND d.is_output_passed)
        -- BETWEEN, so that only the index on parents can serve
        OR EXISTS (SELECT 1 FROM gandy.manifest_former_edge f
                   WHERE f.parent_id BETWEEN m.id AND m.id AND f.output_seen IS NOT NULL)) AS is_output_kept,
    (m.has_dependents_due OR m.next_look_at <= gandy.now()) AS is_due,
    -- read after the lock: a transaction that queued for the manifest meanwhile has committed
    EXISTS (SELECT 1 FROM gandy.work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting') AS has_waiting;

-- name: keep_outputs
-- The outputs that dependents take as their input, with the count of the success; the caller holds the manifests' locks.
INSERT INTO gandy.manifest_output (manifest_id, success_count, output)
SELECT m.id, m.success_count, o.output::json
FROM unnest(%(manifest_id)s::bigint[], %(output)s::text[]) AS o(manifest_id, output)
JOIN gandy.manifest m ON m.id BETWEEN o.manifest_id AND o.manifest_id
ON CONFLICT (manifest_id) DO UPDATE SET success_count = excluded.success_count, output = excluded.output;

-- name: count_final_failures
-- Parked without a run that ended now: what its last run left open is decided, and counts as a failure.
UPDATE gandy.manifest m SET
    final_failure_count = m.final_failure_count + 1, end_count = m.end_count + 1,
    last_final_failure_id = m.last_failed_run_id,
    has_dependents_due = m.has_dependents_due OR EXISTS (
        SELECT 1 FROM gandy.manifest_edge d WHERE d.parent_id = m.id AND d.kind IN ('failure', 'end'))
WHERE m.id = ANY(%(ids)s::bigint[]) AND m.last_failed_run_id IS DISTINCT FROM m.last_final_failure_id
RETURNING m.id, m.owner, m.has_dependents_due;

-- name: count_cancelled
-- Occurrences that were cancelled before they began.
UPDATE gandy.manifest m SET
    end_count = m.end_count + c.count,
    has_dependents_due = m.has_dependents_due OR EXISTS (
        SELECT 1 FROM gandy.manifest_edge d WHERE d.parent_id = m.id AND d.kind = 'end')
FROM unnest(%(manifest_id)s::bigint[], %(count)s::bigint[]) AS c(manifest_id, count)
WHERE m.id = c.manifest_id
RETURNING m.id, m.owner, m.has_dependents_due;

-- name: park_jobs
-- The dead letter of a job that used up its attempts, with the input that failed.
INSERT INTO gandy.dead_letter (
    owner, manifest_id, manifest_group_id, train_name, input, input_type_name, metadata_id, due_at, attempt, priority,
    reason, evidence, max_retries, is_retried, retry_delay_seconds, timeout_seconds)
SELECT h.owner, h.manifest_id, h.manifest_group_id, h.name, h.input, h.input_type_name, h.id, h.due_at, h.attempt,
       h.priority, p.reason, p.evidence::json, h.max_retries, h.is_retried, h.retry_delay_seconds, h.timeout_seconds
FROM unnest(%(id)s::bigint[], %(bucket)s::text[], %(reason)s::text[], %(evidence)s::text[]) AS p(id, bucket, reason, evidence)
JOIN gandy.history h ON h.id = p.id AND h.bucket = split_part(p.bucket, '/', 1)::date AND h.piece = split_part(p.bucket, '/', 2)::smallint AND h.origin IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING id, metadata_id;

-- name: count_lost_letters
-- Letters dropped by design; the count is reported.
INSERT INTO gandy.service_state AS s (owner, key, value)
VALUES (%(owner)s, 'letters_not_written:' || %(train_name)s, to_json(%(count)s::bigint))
ON CONFLICT (owner, key) DO UPDATE
SET value = to_json((s.value::text)::bigint + %(count)s), updated_at = gandy.now();

-- name: park_entries
-- The dead letter of an ad-hoc job whose entry cannot become a run.
INSERT INTO gandy.dead_letter (
    owner, manifest_id, manifest_group_id, train_name, input, input_type_name, metadata_id, due_at, attempt, priority,
    reason, evidence, max_retries, is_retried, retry_delay_seconds, timeout_seconds)
SELECT q.owner, q.manifest_id, q.manifest_group_id, q.train_name, q.input, q.input_type_name, q.id, q.due_at, q.attempt,
       q.priority, p.reason, p.evidence::json, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds
FROM unnest(%(id)s::bigint[], %(reason)s::text[], %(evidence)s::text[]) AS p(id, reason, evidence)
JOIN gandy.work_queue q ON q.id = p.id
ON CONFLICT DO NOTHING
RETURNING id, metadata_id;

-- name: wait_behind_letter
-- The next attempt of a run that used up its attempts while its manifest has a letter already: there is never a second one,
-- so it waits for the resolution. A run with the letter's own input is repeated by the letter.
INSERT INTO gandy.work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, status, origin, due_at, attempt,
    scheduled_at, created_at, retry_of, parent_id)
SELECT h.owner, m.name, h.input, h.input_type_name, h.manifest_id, h.manifest_group_id, h.priority, 'waiting', 'retry',
       h.due_at, h.attempt + 1, gandy.now(), gandy.now(), h.id, h.parent_id
FROM unnest(%(id)s::bigint[], %(bucket)s::text[]) AS p(id, bucket)
JOIN gandy.history h ON h.id = p.id AND h.bucket = split_part(p.bucket, '/', 1)::date AND h.piece = split_part(p.bucket, '/', 2)::smallint
JOIN gandy.manifest m ON m.id = h.manifest_id
JOIN gandy.dead_letter l ON l.manifest_id = m.id AND l.status = 'awaiting_intervention'
WHERE h.input::text IS DISTINCT FROM l.input::text
ON CONFLICT DO NOTHING
RETURNING id, retry_of;
