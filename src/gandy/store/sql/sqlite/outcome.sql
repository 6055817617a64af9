-- name: lock_idle_manifests
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT id, external_id, active_run_id, timeout_seconds, is_enabled AND orphaned_at IS NULL AS is_open
FROM manifest WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: lock_manifests
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT id, external_id, failure_count, max_retries, is_retried, retry_delay_seconds, keep_for_seconds,
       is_enabled AND orphaned_at IS NULL AS is_open
FROM manifest WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: read_failing
-- The retry policy of a manifest whose run failed, with whether that run had the manifest's own input.
SELECT m.id, m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.exclusions,
       m.next_scheduled_run, m.failure_count, m.max_retries, m.is_retried, m.retry_delay_seconds, m.first_failed_at,
       m.is_enabled AND m.orphaned_at IS NULL AND coalesce(g.is_enabled, 1) AS is_on,
       h.id IS NULL OR h.input IS m.properties AS is_own_input, gandy_now() AS now
FROM manifest m LEFT JOIN manifest_group g ON g.id = m.manifest_group_id
LEFT JOIN history h ON h.id = :run_id AND :bucket IS NULL
WHERE m.id = :manifest_id;

-- name: record_manifest_ends
-- All that decides about the next run is kept on the manifest, so that history may be pruned.
UPDATE manifest SET
    active_run_id = NULL,
    success_count = success_count + (:state = 'completed'),
    final_failure_count = final_failure_count + (:ended IS 'failure'),
    end_count = end_count + (:ended IS NOT NULL),
    last_final_failure_id = CASE WHEN :ended = 'failure' THEN :run_id ELSE last_final_failure_id END,
    failure_count = CASE WHEN :state = 'completed' THEN 0 WHEN :is_counted THEN failure_count + 1 ELSE failure_count END,
    first_failed_at = CASE WHEN NOT :is_counted THEN first_failed_at WHEN failure_count = 0 THEN gandy_now()
                           ELSE coalesce(first_failed_at, gandy_now()) END,
    last_failed_run_id = CASE WHEN :state = 'failed' THEN :run_id ELSE last_failed_run_id END,
    last_successful_run_id = CASE WHEN :state = 'completed' THEN :run_id ELSE last_successful_run_id END,
    last_successful_run = CASE WHEN :state = 'completed' THEN gandy_now() ELSE last_successful_run END,
    completed_at = CASE WHEN :state = 'completed' AND schedule_type = 'once' AND next_scheduled_run IS NULL
                        THEN gandy_now() ELSE completed_at END,
    has_dependents_due = has_dependents_due OR (:ended IS NOT NULL AND EXISTS (
        SELECT 1 FROM manifest_edge d WHERE d.parent_id = manifest.id AND d.kind IN (:ended, 'end'))),
    next_look_at = CASE WHEN :needs_look OR schedule_type = 'dependent' OR next_scheduled_run <= gandy_now()
                        THEN min(coalesce(next_look_at, gandy_now()), gandy_now()) ELSE next_look_at END
WHERE id = :manifest_id AND active_run_id = :run_id
RETURNING id, owner, :ended IS 'success' AND (has_dependents_due AND EXISTS (
            SELECT 1 FROM manifest_edge d WHERE d.parent_id = manifest.id AND d.kind = 'success' AND d.is_output_passed)
        OR EXISTS (SELECT 1 FROM manifest_former_edge f
                   WHERE f.parent_id = manifest.id AND f.output_seen IS NOT NULL)) AS is_output_kept,
    (has_dependents_due OR coalesce(next_look_at <= gandy_now(), 0)) AS is_due,
    EXISTS (SELECT 1 FROM work_queue w WHERE w.manifest_id = manifest.id AND w.status = 'waiting') AS has_waiting;

-- name: keep_outputs
-- The outputs that dependents take as their input, with the count of the success.
INSERT INTO manifest_output (manifest_id, success_count, output)
SELECT id, success_count, :output FROM manifest WHERE id = :manifest_id
ON CONFLICT (manifest_id) DO UPDATE SET success_count = excluded.success_count, output = excluded.output;

-- name: count_final_failures
-- Parked without a run that ended now: what its last run left open is decided, and counts as a failure.
UPDATE manifest SET
    final_failure_count = final_failure_count + 1, end_count = end_count + 1,
    last_final_failure_id = last_failed_run_id,
    has_dependents_due = has_dependents_due OR EXISTS (
        SELECT 1 FROM manifest_edge d WHERE d.parent_id = manifest.id AND d.kind IN ('failure', 'end'))
WHERE id IN (SELECT value FROM json_each(:ids)) AND last_failed_run_id IS NOT last_final_failure_id
RETURNING id, owner, has_dependents_due;

-- name: count_cancelled
-- Occurrences that were cancelled before they began.
UPDATE manifest SET
    end_count = end_count + :count,
    has_dependents_due = has_dependents_due OR EXISTS (
        SELECT 1 FROM manifest_edge d WHERE d.parent_id = manifest.id AND d.kind = 'end')
WHERE id = :manifest_id
RETURNING id, owner, has_dependents_due;

-- name: park_jobs
-- The dead letter of a job that used up its attempts, with the input that failed.
INSERT INTO dead_letter (
    owner, manifest_id, manifest_group_id, train_name, input, input_type_name, metadata_id, due_at, attempt, priority,
    reason, evidence, max_retries, is_retried, retry_delay_seconds, timeout_seconds, dead_lettered_at)
SELECT h.owner, h.manifest_id, h.manifest_group_id, h.name, h.input, h.input_type_name, h.id, h.due_at, h.attempt,
       h.priority, :reason, :evidence, h.max_retries, h.is_retried, h.retry_delay_seconds, h.timeout_seconds, gandy_now()
FROM history h WHERE h.id = :id AND :bucket IS NULL AND h.origin IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING id, metadata_id;

-- name: count_lost_letters
-- Letters dropped by design; the count is reported.
INSERT INTO service_state (owner, key, value, updated_at)
VALUES (:owner, 'letters_not_written:' || :train_name, CAST(:count AS TEXT), gandy_now())
ON CONFLICT (owner, key) DO UPDATE
SET value = CAST(CAST(service_state.value AS INTEGER) + :count AS TEXT), updated_at = excluded.updated_at;

-- name: park_entries
-- The dead letter of an ad-hoc job whose entry cannot become a run.
INSERT INTO dead_letter (
    owner, manifest_id, manifest_group_id, train_name, input, input_type_name, metadata_id, due_at, attempt, priority,
    reason, evidence, max_retries, is_retried, retry_delay_seconds, timeout_seconds, dead_lettered_at)
SELECT q.owner, q.manifest_id, q.manifest_group_id, q.train_name, q.input, q.input_type_name, q.id, q.due_at, q.attempt,
       q.priority, :reason, :evidence, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds, gandy_now()
FROM work_queue q WHERE q.id = :id
ON CONFLICT DO NOTHING
RETURNING id, metadata_id;

-- name: wait_behind_letter
-- The next attempt of a run that used up its attempts while its manifest has a letter already: there is never a second one,
-- so it waits for the resolution. A run with the letter's own input is repeated by the letter.
INSERT INTO work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, status, origin, due_at, attempt,
    scheduled_at, created_at, retry_of, parent_id)
SELECT h.owner, m.name, h.input, h.input_type_name, h.manifest_id, h.manifest_group_id, h.priority, 'waiting', 'retry',
       h.due_at, h.attempt + 1, gandy_now(), gandy_now(), h.id, h.parent_id
FROM history h
JOIN manifest m ON m.id = h.manifest_id
JOIN dead_letter l ON l.manifest_id = m.id AND l.status = 'awaiting_intervention'
WHERE h.id = :id AND :bucket IS NULL AND h.input IS NOT l.input
ON CONFLICT DO NOTHING
RETURNING id, retry_of;
