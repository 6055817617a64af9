-- name: begin_batch
-- Differs from PostgreSQL: the file's one write lock is taken before the first statement.
SELECT :milliseconds AS milliseconds;

-- name: find_expired_runs
-- Old enough, of these trains of these owners; the pairs and the index give the order, so nothing is sorted.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids,
       json_extract(json_group_array(within), '$[#-1]') AS within, NULL AS buckets
FROM (
    SELECT n.key + 1 AS within, r.start_time AS at, r.id
    FROM json_each(:names) AS n CROSS JOIN history r INDEXED BY ix_history_name
    WHERE r.owner = json_extract(:owners, '$[' || n.key || ']') AND r.name = n.value AND r.start_time < :before
      AND r.start_time >= CASE WHEN n.key = 0 THEN coalesce(:after_at, '') ELSE '' END
      AND (n.key > 0 OR (r.start_time, r.id) > (coalesce(:after_at, ''), coalesce(:after_id, 0)))
    LIMIT :limit) dead;

-- name: delete_logs_of_runs
-- Differs from PostgreSQL: one table, so there is no partition to name.
DELETE FROM log WHERE metadata_id IN (SELECT value FROM json_each(:ids));

-- name: forget_runs_of_letters
-- The letter stays without its requeued run.
UPDATE dead_letter SET retry_metadata_id = NULL WHERE retry_metadata_id IN (SELECT value FROM json_each(:ids));

-- name: delete_runs
-- Last, so that rows that remain after a failure are found again through their run.
DELETE FROM history WHERE id IN (SELECT value FROM json_each(:ids));

-- name: find_dead_runs
-- Past keep_until; a keyset walk, so that no batch reads the rows of the previous one again.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT keep_until AS at, id FROM history
    WHERE keep_until <= :before AND (keep_until, id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
    ORDER BY keep_until, id LIMIT :limit) dead;

-- name: delete_logs_by_row
-- The same as delete_logs_of_runs: every run is kept by row.
DELETE FROM log WHERE metadata_id IN (SELECT value FROM json_each(:ids));

-- name: delete_runs_by_row
-- The same as delete_runs: every run is kept by row.
DELETE FROM history WHERE id IN (SELECT value FROM json_each(:ids));

-- name: find_settled_entries
-- Skipped or cancelled; their age counts from then, not from their creation.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT coalesce(settled_at, created_at) AS at, id FROM work_queue
    WHERE status = :status AND status IN ('skipped', 'cancelled') AND coalesce(settled_at, created_at) < :before
      AND (coalesce(settled_at, created_at), id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
    ORDER BY coalesce(settled_at, created_at), id LIMIT :limit) dead;

-- name: delete_settled_entries
-- Found in this transaction, which holds the file's write lock.
DELETE FROM work_queue WHERE id IN (SELECT value FROM json_each(:ids)) AND status = :status
  AND coalesce(settled_at, created_at) < :before;

-- name: find_stray_logs
-- Differs from PostgreSQL: lines never move, so none is orphaned.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT NULL AS at, NULL AS id WHERE :after_id IS NULL AND :limit = 0) dead;

-- name: settle_stray_logs
-- Differs from PostgreSQL: lines never move.
SELECT 0 AS rows WHERE :ids IS NOT NULL;

-- name: find_gone_workers
-- Stopped or lost, and not seen for long.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT last_seen_at AS at, id FROM worker
    WHERE state IN ('stopped', 'lost') AND last_seen_at < :before
      AND (last_seen_at, id) > (coalesce(:after_at, ''), coalesce(:after_id, ''))
    ORDER BY last_seen_at, id LIMIT :limit) dead;

-- name: find_silent_workers_without_runs
-- Their lease expired long ago, but they were never marked lost; they have no runs left to fail.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT w.lease_expires_at AS at, w.id FROM worker w
    WHERE w.state IN ('running', 'draining') AND w.lease_expires_at < :before
      AND (w.lease_expires_at, w.id) > (coalesce(:after_at, ''), coalesce(:after_id, ''))
      AND NOT EXISTS (SELECT 1 FROM work_queue r INDEXED BY ix_work_queue_live_run
                      WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.worker_id = w.id)
    ORDER BY w.lease_expires_at, w.id LIMIT :limit) dead;

-- name: delete_workers
-- Found in this transaction, which holds the file's write lock.
DELETE FROM worker WHERE id IN (SELECT value FROM json_each(:ids))
  AND CASE WHEN state IN ('stopped', 'lost') THEN last_seen_at ELSE lease_expires_at END < :before;

-- name: find_expired_keys
-- Expired: the next request with the same key would take them over anyway.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT expires_at AS at, holder_id AS id FROM unique_key
    WHERE expires_at <= :before AND (expires_at, holder_id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
    ORDER BY expires_at, holder_id LIMIT :limit) dead;

-- name: delete_expired_keys
-- Found in this transaction, which holds the file's write lock.
DELETE FROM unique_key WHERE holder_id IN (SELECT value FROM json_each(:ids)) AND expires_at <= :before;

-- name: find_old_audit
-- Old rows of the audit trail.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT at, id FROM audit
    WHERE at < :before AND (at, id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
    ORDER BY at, id LIMIT :limit) dead;

-- name: delete_old_audit
-- Audit rows are never updated, so there is nothing to check again.
DELETE FROM audit WHERE id IN (SELECT value FROM json_each(:ids)) AND at < :before;

-- name: find_old_state
-- State that was not updated for long belongs to a train or an application that is gone.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT updated_at AS at, key AS id FROM service_state
    WHERE updated_at < :before AND (updated_at, key) > (coalesce(:after_at, ''), coalesce(:after_id, ''))
    ORDER BY updated_at, key LIMIT :limit) dead;

-- name: delete_old_state
-- State that was updated meanwhile stays.
DELETE FROM service_state WHERE key IN (SELECT value FROM json_each(:ids)) AND updated_at < :before;

-- name: find_expired_web_keys
-- Expired sessions and codes of the dashboard.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT expires_at AS at, id FROM web_key
    WHERE expires_at <= :before AND (expires_at, id) > (coalesce(:after_at, ''), coalesce(:after_id, ''))
    ORDER BY expires_at, id LIMIT :limit) dead;

-- name: delete_expired_web_keys
-- A key is never renewed.
DELETE FROM web_key WHERE id IN (SELECT value FROM json_each(:ids)) AND expires_at <= :before;

-- name: find_former_edges
-- What dependents have seen of parents that they no longer have.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT dropped_at AS at, id FROM manifest_former_edge
    WHERE dropped_at < :before AND (dropped_at, id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
    ORDER BY dropped_at, id LIMIT :limit) dead;

-- name: forget_outputs
-- Outputs that only these former edges would take.
DELETE FROM manifest_output
WHERE manifest_id IN (
    SELECT parent_id FROM manifest_former_edge WHERE id IN (SELECT value FROM json_each(:ids)) AND output_seen IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM manifest_edge e WHERE e.parent_id = manifest_output.manifest_id AND e.is_output_passed)
  AND NOT EXISTS (SELECT 1 FROM manifest_former_edge f WHERE f.parent_id = manifest_output.manifest_id
                  AND f.output_seen IS NOT NULL AND f.id NOT IN (SELECT value FROM json_each(:ids)));

-- name: delete_former_edges
-- One that was declared again meanwhile is gone already.
DELETE FROM manifest_former_edge WHERE id IN (SELECT value FROM json_each(:ids)) AND dropped_at < :before;

-- name: find_idle_groups
-- Groups without manifests, declared settings or overrides that were created or last used long ago.
SELECT count(*) AS rows, json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT g.id FROM manifest_group g
    WHERE g.id > coalesce(:after_id, 0) AND g.updated_at < :before
      AND g.declared = '{}' AND g.overrides = '{}' AND g.is_enabled
      AND NOT EXISTS (SELECT 1 FROM manifest m WHERE m.manifest_group_id = g.id)
    ORDER BY g.id LIMIT :limit) dead;

-- name: spare_used_groups
-- A group with entries, runs or awaiting letters stays; all used groups are marked at once, so that this is rarely needed.
UPDATE manifest_group SET updated_at = gandy_now()
WHERE updated_at < :before AND id IN (
    SELECT manifest_group_id FROM work_queue
    UNION SELECT manifest_group_id FROM dead_letter WHERE status = 'awaiting_intervention');

-- name: delete_idle_groups
-- Checks again all conditions that may have changed meanwhile.
DELETE FROM manifest_group
WHERE id IN (SELECT value FROM json_each(:ids)) AND updated_at < :before
  AND declared = '{}' AND overrides = '{}' AND is_enabled
  AND NOT EXISTS (SELECT 1 FROM manifest m WHERE m.manifest_group_id = manifest_group.id);

-- name: find_resolved_letters
-- Never a letter that awaits an operator, nor one whose requeued entry is not dispatched yet.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT l.resolved_at AS at, l.id FROM dead_letter l
    WHERE l.status <> 'awaiting_intervention' AND l.resolved_at < :before
      AND (l.resolved_at, l.id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
      AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.dead_letter_id = l.id AND q.status IN ('queued', 'waiting'))
    ORDER BY l.resolved_at, l.id LIMIT :limit) dead;

-- name: delete_resolved_letters
-- Found in this transaction, which holds the file's write lock.
DELETE FROM dead_letter WHERE id IN (SELECT value FROM json_each(:ids))
  AND status <> 'awaiting_intervention' AND resolved_at < :before;

-- name: find_orphaned_manifests
-- No longer declared; the rules decide whether they may be removed.
SELECT m.orphaned_at AS at, m.id, m.orphaned_at, m.completed_at,
       m.origin = 'declared' AND m.orphaned_at IS NULL AS is_declared, m.active_run_id IS NOT NULL AS has_unfinished_run,
       m.schedule_type = 'once' AND (m.next_scheduled_run IS NULL OR m.used_instants <> '{}') AS is_spent_once
FROM manifest m
WHERE m.orphaned_at < :before AND (m.orphaned_at, m.id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
ORDER BY m.orphaned_at, m.id LIMIT :limit;

-- name: find_completed_manifests
-- Made at run time to run once, and finished; the rules decide whether they may be removed.
SELECT m.completed_at AS at, m.id, m.orphaned_at, m.completed_at, 0 AS is_declared,
       m.active_run_id IS NOT NULL AS has_unfinished_run
FROM manifest m
WHERE m.completed_at < :before AND m.origin = 'runtime'
  AND (m.completed_at, m.id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
ORDER BY m.completed_at, m.id LIMIT :limit;

-- name: lock_removable_manifests
-- Differs from PostgreSQL: the transaction already holds the file's write lock.
SELECT m.id FROM manifest m
WHERE m.id IN (SELECT value FROM json_each(:ids)) AND m.active_run_id IS NULL
  AND (m.orphaned_at < :before AND NOT (m.schedule_type = 'once' AND (m.next_scheduled_run IS NULL OR m.used_instants <> '{}')
                                     AND coalesce(m.completed_at, m.orphaned_at) >= :once_before)
       OR m.origin = 'runtime' AND m.completed_at < :once_before)
  AND NOT EXISTS (SELECT 1 FROM manifest_edge e WHERE e.parent_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention')
  -- an input of its own would be lost; two subqueries, so that each reads an index of its status
  AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued'
                  AND q.origin IN ('retry', 'trigger', 'dormant', 'requeue'))
  AND NOT EXISTS (SELECT 1 FROM work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting'
                  AND w.origin IN ('retry', 'trigger', 'dormant', 'requeue'))
ORDER BY m.id;

-- name: cancel_entries_of_manifests
-- An entry cannot run without its manifest.
DELETE FROM unique_key WHERE holder_id IN (
    SELECT q.id FROM work_queue q WHERE q.manifest_id IN (SELECT value FROM json_each(:ids)) AND q.status IN ('queued', 'waiting'));
UPDATE work_queue SET status = 'cancelled', settled_at = gandy_now()
WHERE manifest_id IN (SELECT value FROM json_each(:ids)) AND status IN ('queued', 'waiting');

-- name: release_letters_of_manifests
-- A resolved letter has its own train and input, so it outlives its manifest.
UPDATE dead_letter SET manifest_id = NULL
WHERE manifest_id IN (SELECT value FROM json_each(:ids)) AND status <> 'awaiting_intervention';

-- name: delete_manifests
-- The transaction holds the file's write lock, so no condition has changed.
DELETE FROM manifest WHERE id IN (SELECT value FROM json_each(:ids));

-- name: find_newest_surplus
-- Differs from PostgreSQL: SQLite has no LATERAL, so this runs once per manifest.
SELECT r.manifest_id, r.id AS newest FROM history r
WHERE r.manifest_id = :manifest_id
ORDER BY r.id DESC LIMIT 1 OFFSET :keep_last;

-- name: find_surplus_runs
-- Differs from PostgreSQL: once per manifest, too.
SELECT r.manifest_id AS within, r.id, NULL AS bucket FROM history r
WHERE r.manifest_id = :manifest_id AND r.id <= :newest
ORDER BY r.id DESC LIMIT :limit;

-- name: find_ended_tallies
-- Tallies of minutes that are over, the oldest first, of all owners.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT at, id FROM run_tally
    WHERE at < :before AND (at, id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
    ORDER BY at, id LIMIT :limit) dead;

-- name: find_old_rollups
-- Rows of one kind past their age.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT at, id FROM run_rollup
    WHERE grain = :grain AND at < :before AND (at, id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
    ORDER BY at, id LIMIT :limit) dead;

-- name: delete_old_rollups
-- By id; their age is checked again.
DELETE FROM run_rollup WHERE id IN (SELECT value FROM json_each(:ids)) AND grain = :grain AND at < :before;

-- name: find_old_samples
-- Samples of an hour, or the first ones of their day, past their age.
SELECT count(*) AS rows, json_extract(json_group_array(at), '$[#-1]') AS at,
       json_extract(json_group_array(id), '$[#-1]') AS id, json_group_array(id) AS ids
FROM (
    SELECT at, id FROM table_sample
    WHERE is_daily = :is_daily AND at < :before AND (at, id) > (coalesce(:after_at, ''), coalesce(:after_id, 0))
    ORDER BY at, id LIMIT :limit) dead;

-- name: delete_old_samples
-- By id; their age is checked again.
DELETE FROM table_sample WHERE id IN (SELECT value FROM json_each(:ids)) AND is_daily = :is_daily AND at < :before;
