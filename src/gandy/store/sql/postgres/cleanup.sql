-- name: begin_batch
-- Work has priority: a short lock timeout. Walks follow an index: a sort would read all expired rows for each batch.
SELECT set_config('lock_timeout', %(milliseconds)s::text, true) AS patience, set_config('enable_sort', 'off', true) AS sorts;

-- name: find_expired_runs
-- Old enough, of these trains of these owners, in any partition; if nothing is found, one probe per pair and partition.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids, (array_agg(within))[count(*)::int] AS within, array_agg(bucket)::text AS buckets
FROM (
    SELECT e.within, e.at, e.id, e.bucket
    FROM unnest(%(owners)s::text[], %(names)s::text[]) WITH ORDINALITY AS w(owner, name, place) CROSS JOIN LATERAL (
        SELECT w.place AS within, r.start_time AS at, r.id, r.bucket || '/' || r.piece AS bucket FROM gandy.history r
        WHERE r.owner = w.owner AND r.name = w.name AND r.start_time < %(before)s
          AND (r.start_time, r.id) > (
            CASE WHEN w.place = 1 THEN coalesce(%(after_at)s::timestamptz, '-infinity') ELSE '-infinity' END,
            CASE WHEN w.place = 1 THEN coalesce(%(after_id)s::bigint, 0) ELSE 0 END)
        ORDER BY r.start_time, r.id LIMIT %(limit)s) e
    LIMIT %(limit)s) dead;

-- name: delete_logs_of_runs
-- Log lines are in the piece of their run, so that only one partition is read.
DELETE FROM gandy.log l
USING (SELECT id, split_part(bucket, '/', 1)::date AS bucket, split_part(bucket, '/', 2)::smallint AS piece
       FROM unnest(%(ids)s::bigint[], %(buckets)s::text[]) AS u(id, bucket) ORDER BY id) d
WHERE l.metadata_id = d.id AND l.bucket = d.bucket AND l.piece = d.piece;

-- name: forget_runs_of_letters
-- The letter stays without its requeued run; if no letter has one, nothing is looked up.
UPDATE gandy.dead_letter SET retry_metadata_id = NULL
WHERE (SELECT EXISTS (SELECT 1 FROM gandy.dead_letter WHERE retry_metadata_id IS NOT NULL))
  AND retry_metadata_id = ANY(%(ids)s::bigint[]);

-- name: delete_runs
-- Last, so that rows that remain after a failure are found again through their run.
DELETE FROM gandy.history r
USING (SELECT id, split_part(bucket, '/', 1)::date AS bucket, split_part(bucket, '/', 2)::smallint AS piece
       FROM unnest(%(ids)s::bigint[], %(buckets)s::text[]) AS u(id, bucket) ORDER BY id) d
WHERE r.id = d.id AND r.bucket = d.bucket AND r.piece = d.piece;

-- name: find_dead_runs
-- Runs kept by row and past keep_until; a keyset walk skips the dead entries of the index.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT keep_until AS at, id FROM gandy.history_rowwise
    WHERE keep_until <= %(before)s
      AND (keep_until, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
    ORDER BY keep_until, id LIMIT %(limit)s) dead;

-- name: delete_logs_by_row
-- The same as delete_logs_of_runs for runs that are kept by row.
DELETE FROM gandy.log_rowwise WHERE metadata_id = ANY(%(ids)s::bigint[]);

-- name: delete_runs_by_row
-- The same as delete_runs for runs that are kept by row.
DELETE FROM gandy.history_rowwise WHERE id = ANY(%(ids)s::bigint[]);

-- name: find_settled_entries
-- Skipped or cancelled; their age counts from then, not from their creation.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT coalesce(settled_at, created_at) AS at, id FROM gandy.work_queue
    WHERE status = %(status)s AND status IN ('skipped', 'cancelled') AND coalesce(settled_at, created_at) < %(before)s
      AND (coalesce(settled_at, created_at), id)
          > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
    ORDER BY coalesce(settled_at, created_at), id LIMIT %(limit)s) dead;

-- name: delete_settled_entries
-- A verdict that was extended meanwhile stays.
DELETE FROM gandy.work_queue WHERE id = ANY(%(ids)s::bigint[]) AND status = %(status)s
  AND coalesce(settled_at, created_at) < %(before)s;

-- name: find_stray_logs
-- Lines in the live partition whose run is not live: the process that ended it could not move them.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    WITH RECURSIVE written(id) AS (
        (SELECT metadata_id FROM gandy.log_live WHERE metadata_id > coalesce(%(after_id)s::bigint, 0)
         ORDER BY metadata_id LIMIT 1)
        UNION ALL
        SELECT (SELECT l.metadata_id FROM gandy.log_live l WHERE l.metadata_id > written.id ORDER BY l.metadata_id LIMIT 1)
        FROM written WHERE written.id IS NOT NULL
    )
    SELECT NULL::timestamptz AS at, id FROM written
    WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM gandy.work_queue r WHERE r.id = written.id AND r.train_state IS NOT NULL) LIMIT %(limit)s) dead;

-- name: settle_stray_logs
-- Move them to the piece of their run; delete them if the run is gone.
WITH strays AS MATERIALIZED (
    SELECT s.id, home.bucket, home.piece FROM unnest(%(ids)s::bigint[]) AS s(id)
    LEFT JOIN LATERAL (SELECT r.bucket, r.piece FROM gandy.history r WHERE r.id = s.id LIMIT 1) home ON true
), moved AS (
    DELETE FROM gandy.log_live l USING strays s WHERE l.metadata_id = s.id
    RETURNING l.id, s.bucket AS day, s.piece AS settled_in, l.metadata_id, l.created_at, l.level, l.logger, l.message
), kept AS (
    INSERT INTO gandy.log (id, bucket, piece, metadata_id, created_at, level, logger, message)
    SELECT id, day, settled_in, metadata_id, created_at, level, logger, message FROM moved WHERE day IS NOT NULL
)
SELECT count(*) AS rows FROM moved;

-- name: find_gone_workers
-- Stopped or lost, and not seen for long.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT last_seen_at AS at, id FROM gandy.worker
    WHERE state IN ('stopped', 'lost') AND last_seen_at < %(before)s
      AND (last_seen_at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::text, ''))
    ORDER BY last_seen_at, id LIMIT %(limit)s) dead;

-- name: find_silent_workers_without_runs
-- Their lease expired long ago, but they were never marked lost; they have no runs left to fail.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT w.lease_expires_at AS at, w.id FROM gandy.worker w
    WHERE w.state IN ('running', 'draining') AND w.lease_expires_at < %(before)s
      AND (w.lease_expires_at, w.id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::text, ''))
      AND NOT EXISTS (SELECT 1 FROM gandy.work_queue r WHERE r.status = 'dispatched' AND r.train_state = 'in_progress' AND r.worker_id = w.id)
    ORDER BY w.lease_expires_at, w.id LIMIT %(limit)s) dead;

-- name: delete_workers
-- A worker that renewed its lease meanwhile stays.
DELETE FROM gandy.worker w WHERE w.id = ANY(%(ids)s::text[])
  AND CASE WHEN w.state IN ('stopped', 'lost') THEN w.last_seen_at ELSE w.lease_expires_at END < %(before)s;

-- name: find_expired_keys
-- Expired: the next request with the same key would take them over anyway.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT expires_at AS at, holder_id AS id FROM gandy.unique_key
    WHERE expires_at <= %(before)s
      AND (expires_at, holder_id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
    ORDER BY expires_at, holder_id LIMIT %(limit)s) dead;

-- name: delete_expired_keys
-- A key that was taken again meanwhile stays.
DELETE FROM gandy.unique_key WHERE holder_id = ANY(%(ids)s::bigint[]) AND expires_at <= %(before)s;

-- name: find_old_audit
-- Old rows of the audit trail.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT at, id FROM gandy.audit
    WHERE at < %(before)s
      AND (at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
    ORDER BY at, id LIMIT %(limit)s) dead;

-- name: delete_old_audit
-- Audit rows are never updated, so there is nothing to check again.
DELETE FROM gandy.audit WHERE id = ANY(%(ids)s::bigint[]) AND at < %(before)s;

-- name: find_old_state
-- State that was not updated for long belongs to a train or an application that is gone.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT updated_at AS at, key AS id FROM gandy.service_state
    WHERE updated_at < %(before)s
      AND (updated_at, key) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::text, ''))
    ORDER BY updated_at, key LIMIT %(limit)s) dead;

-- name: delete_old_state
-- State that was updated meanwhile stays.
DELETE FROM gandy.service_state WHERE key = ANY(%(ids)s::text[]) AND updated_at < %(before)s;

-- name: find_expired_web_keys
-- Expired sessions and codes of the dashboard.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT expires_at AS at, id FROM gandy.web_key
    WHERE expires_at <= %(before)s
      AND (expires_at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::text, ''))
    ORDER BY expires_at, id LIMIT %(limit)s) dead;

-- name: delete_expired_web_keys
-- A key is never renewed.
DELETE FROM gandy.web_key WHERE id = ANY(%(ids)s::text[]) AND expires_at <= %(before)s;

-- name: find_former_edges
-- What dependents have seen of parents that they no longer have.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT dropped_at AS at, id FROM gandy.manifest_former_edge
    WHERE dropped_at < %(before)s
      AND (dropped_at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
    ORDER BY dropped_at, id LIMIT %(limit)s) dead;

-- name: forget_outputs
-- Outputs that only these former edges would take.
DELETE FROM gandy.manifest_output o
WHERE o.manifest_id IN (SELECT parent_id FROM gandy.manifest_former_edge WHERE id = ANY(%(ids)s::bigint[]) AND output_seen IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM gandy.manifest_edge e WHERE e.parent_id = o.manifest_id AND e.is_output_passed)
  AND NOT EXISTS (SELECT 1 FROM gandy.manifest_former_edge f WHERE f.parent_id = o.manifest_id AND f.output_seen IS NOT NULL
                  AND f.id <> ALL(%(ids)s::bigint[]));

-- name: delete_former_edges
-- One that was declared again meanwhile is gone already.
DELETE FROM gandy.manifest_former_edge WHERE id = ANY(%(ids)s::bigint[]) AND dropped_at < %(before)s;

-- name: find_idle_groups
-- Groups without manifests, declared settings or overrides that were created or last used long ago.
SELECT count(*) AS rows, (array_agg(id))[count(*)::int] AS id, array_agg(id)::text AS ids
FROM (
    SELECT g.id FROM gandy.manifest_group g
    WHERE g.id > coalesce(%(after_id)s::bigint, 0) AND g.updated_at < %(before)s
      AND g.declared::text = '{}' AND g.overrides::text = '{}' AND g.is_enabled
      AND NOT EXISTS (SELECT 1 FROM gandy.manifest m WHERE m.manifest_group_id = g.id)
    ORDER BY g.id LIMIT %(limit)s) dead;

-- name: spare_used_groups
-- A group with entries, runs or awaiting letters stays; all used groups are marked at once, so that this is rarely needed.
UPDATE gandy.manifest_group SET updated_at = gandy.now()
WHERE updated_at < %(before)s AND id = ANY (ARRAY(
    SELECT manifest_group_id FROM gandy.work_queue
    UNION SELECT manifest_group_id FROM gandy.dead_letter WHERE status = 'awaiting_intervention'));

-- name: delete_idle_groups
-- Checks again all conditions that may have changed meanwhile.
DELETE FROM gandy.manifest_group g
WHERE g.id = ANY(%(ids)s::bigint[]) AND g.updated_at < %(before)s
  AND g.declared::text = '{}' AND g.overrides::text = '{}' AND g.is_enabled
  AND NOT EXISTS (SELECT 1 FROM gandy.manifest m WHERE m.manifest_group_id = g.id);

-- name: find_resolved_letters
-- Never a letter that awaits an operator, nor one whose requeued entry is not dispatched yet.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT l.resolved_at AS at, l.id FROM gandy.dead_letter l
    WHERE l.status <> 'awaiting_intervention' AND l.resolved_at < %(before)s
      AND (l.resolved_at, l.id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
      AND NOT EXISTS (SELECT 1 FROM gandy.work_queue q WHERE q.dead_letter_id = l.id AND q.status IN ('queued', 'waiting'))
    ORDER BY l.resolved_at, l.id LIMIT %(limit)s) dead;

-- name: delete_resolved_letters
-- Checks the conditions again: a letter that was requeued meanwhile stays.
DELETE FROM gandy.dead_letter l WHERE l.id = ANY(%(ids)s::bigint[])
  AND l.status <> 'awaiting_intervention' AND l.resolved_at < %(before)s
  AND NOT EXISTS (SELECT 1 FROM gandy.work_queue q WHERE q.dead_letter_id = l.id AND q.status IN ('queued', 'waiting'));

-- name: find_orphaned_manifests
-- No longer declared; the rules decide whether they may be removed.
SELECT m.orphaned_at AS at, m.id, m.orphaned_at, m.completed_at, m.origin = 'declared' AND m.orphaned_at IS NULL AS is_declared,
       m.active_run_id IS NOT NULL AS has_unfinished_run,
       m.schedule_type = 'once' AND (m.next_scheduled_run IS NULL OR m.used_instants::text <> '{}') AS is_spent_once
FROM gandy.manifest m
WHERE m.orphaned_at < %(before)s
  AND (m.orphaned_at, m.id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
ORDER BY m.orphaned_at, m.id LIMIT %(limit)s;

-- name: find_completed_manifests
-- Made at run time to run once, and finished; the rules decide whether they may be removed.
SELECT m.completed_at AS at, m.id, m.orphaned_at, m.completed_at, false AS is_declared,
       m.active_run_id IS NOT NULL AS has_unfinished_run
FROM gandy.manifest m
WHERE m.completed_at < %(before)s AND m.origin = 'runtime'
  AND (m.completed_at, m.id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
ORDER BY m.completed_at, m.id LIMIT %(limit)s;

-- name: lock_removable_manifests
-- Excludes manifests that are locked, have a run, a dependent, an awaiting letter, or entries that no schedule makes again.
SELECT m.id FROM gandy.manifest m
WHERE m.id = ANY(%(ids)s::bigint[]) AND m.active_run_id IS NULL
  AND (m.orphaned_at < %(before)s AND NOT (m.schedule_type = 'once' AND (m.next_scheduled_run IS NULL OR m.used_instants::text <> '{}')
                                     AND coalesce(m.completed_at, m.orphaned_at) >= %(once_before)s)
       OR m.origin = 'runtime' AND m.completed_at < %(once_before)s)
  AND NOT EXISTS (SELECT 1 FROM gandy.manifest_edge e WHERE e.parent_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM gandy.dead_letter l WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention')
  -- an input of its own would be lost; two subqueries, so that each reads an index of its status
  AND NOT EXISTS (SELECT 1 FROM gandy.work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued'
                  AND q.origin IN ('retry', 'trigger', 'dormant', 'requeue'))
  AND NOT EXISTS (SELECT 1 FROM gandy.work_queue w WHERE w.manifest_id = m.id AND w.status = 'waiting'
                  AND w.origin IN ('retry', 'trigger', 'dormant', 'requeue'))
ORDER BY m.id FOR UPDATE OF m SKIP LOCKED;

-- name: cancel_entries_of_manifests
-- An entry cannot run without its manifest.
WITH gone AS (
    UPDATE gandy.work_queue SET status = 'cancelled', settled_at = gandy.now()
    WHERE manifest_id = ANY(%(ids)s::bigint[]) AND status IN ('queued', 'waiting') RETURNING id
)
DELETE FROM gandy.unique_key k USING gone WHERE k.holder_id = gone.id;

-- name: release_letters_of_manifests
-- A resolved letter has its own train and input, so it outlives its manifest.
UPDATE gandy.dead_letter SET manifest_id = NULL
WHERE manifest_id = ANY(%(ids)s::bigint[]) AND status <> 'awaiting_intervention';

-- name: delete_manifests
-- They are locked, so no condition has changed.
DELETE FROM gandy.manifest m WHERE m.id = ANY(%(ids)s::bigint[]);

-- name: find_newest_surplus
-- The newest run beyond keep_last; ids ascend in the order of creation.
SELECT c.manifest_id, s.id AS newest
FROM unnest(%(manifest_id)s::bigint[], %(keep_last)s::bigint[]) AS c(manifest_id, keep_last) CROSS JOIN LATERAL (
    SELECT r.id FROM gandy.history r WHERE r.manifest_id = c.manifest_id
    ORDER BY r.id DESC OFFSET c.keep_last LIMIT 1) s;

-- name: find_surplus_runs
-- The newest surplus run and all older ones.
SELECT s.within, s.id, s.bucket
FROM unnest(%(manifest_id)s::bigint[], %(newest)s::bigint[]) AS c(manifest_id, newest) CROSS JOIN LATERAL (
    SELECT r.manifest_id AS within, r.id, r.bucket || '/' || r.piece AS bucket FROM gandy.history r
    WHERE r.manifest_id = c.manifest_id AND r.id <= c.newest
    ORDER BY r.id DESC LIMIT %(limit)s) s
LIMIT %(limit)s;

-- name: find_ended_tallies
-- Tallies of minutes that are over, the oldest first, of all owners.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT at, id FROM gandy.run_tally
    WHERE at < %(before)s
      AND (at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
    ORDER BY at, id LIMIT %(limit)s) dead;

-- name: find_old_rollups
-- Rows of one kind past their age.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT at, id FROM gandy.run_rollup
    WHERE grain = %(grain)s AND at < %(before)s
      AND (at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
    ORDER BY at, id LIMIT %(limit)s) dead;

-- name: delete_old_rollups
-- Found by their age, which the index serves.
DELETE FROM gandy.run_rollup WHERE grain = %(grain)s AND at < %(before)s AND id = ANY(%(ids)s::bigint[]);

-- name: find_old_samples
-- Samples of an hour, or the first ones of their day, past their age.
SELECT count(*) AS rows, (array_agg(at))[count(*)::int] AS at, (array_agg(id))[count(*)::int] AS id,
       array_agg(id)::text AS ids
FROM (
    SELECT at, id FROM gandy.table_sample
    WHERE is_daily = %(is_daily)s AND at < %(before)s
      AND (at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
    ORDER BY at, id LIMIT %(limit)s) dead;

-- name: delete_old_samples
-- Found by their age, which the index serves.
DELETE FROM gandy.table_sample WHERE is_daily = %(is_daily)s AND at < %(before)s AND id = ANY(%(ids)s::bigint[]);
