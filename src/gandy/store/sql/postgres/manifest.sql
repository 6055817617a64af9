-- name: wake_dependents
-- Turns the marks of parents that ended into looks at the dependents of that end: one index then finds all due manifests.
WITH marked AS MATERIALIZED (
    SELECT m.id, ended.kind, ended.count FROM (
        SELECT id, success_count, final_failure_count, end_count
        FROM gandy.manifest WHERE has_dependents_due ORDER BY id LIMIT %(limit)s) m
    CROSS JOIN LATERAL (VALUES ('success', m.success_count), ('failure', m.final_failure_count), ('end', m.end_count))
        AS ended(kind, count)
), concerned AS MATERIALIZED (
    SELECT id, bool_or(is_child) AS is_child, bool_or(NOT is_child) AS is_parent FROM (
        SELECT id, false AS is_child FROM marked
        UNION ALL
        SELECT c.id, true FROM marked p
        -- BETWEEN and LIMIT, so that only the indexes on ids can serve, whatever the statistics say
        JOIN gandy.manifest_edge e ON e.parent_id BETWEEN p.id AND p.id AND e.kind = p.kind AND e.seen < p.count
        CROSS JOIN LATERAL (SELECT id, is_enabled, orphaned_at, manifest_group_id
                            FROM gandy.manifest WHERE id = e.child_id LIMIT 1) c
        -- a dependent that is switched off or parked gets its look when that ends
        WHERE c.is_enabled AND c.orphaned_at IS NULL
          AND EXISTS (SELECT 1 FROM gandy.manifest_group g WHERE g.id = c.manifest_group_id AND g.is_enabled)
          AND NOT EXISTS (SELECT 1 FROM gandy.dead_letter l
                          WHERE l.manifest_id = c.id AND l.status = 'awaiting_intervention')) each
    GROUP BY id
), locked AS MATERIALIZED (
    -- in the order of ids and without waiting, against deadlocks
    SELECT m.id, c.is_child, c.is_parent FROM concerned c JOIN gandy.manifest m ON m.id BETWEEN c.id AND c.id
    ORDER BY m.id FOR NO KEY UPDATE OF m SKIP LOCKED
), all_held AS MATERIALIZED (
    -- if another transaction has locked any of them, the marks stay for the next cycle
    SELECT (SELECT count(*) FROM locked) = (SELECT count(*) FROM concerned) AS is_so
)
UPDATE gandy.manifest m SET
    has_dependents_due = m.has_dependents_due AND NOT (l.is_parent AND all_held.is_so),
    next_look_at = CASE WHEN l.is_child THEN least(coalesce(m.next_look_at, gandy.now()), gandy.now())
                        ELSE m.next_look_at END
FROM locked l, all_held WHERE m.id BETWEEN l.id AND l.id
RETURNING m.id;

-- name: count_due_by_group
-- Reads only the due entries of the index; without any, one probe.
SELECT d.id, g.priority, d.due, d.oldest_due_at FROM (
    SELECT manifest_group_id AS id, count(*) AS due, min(next_look_at) AS oldest_due_at
    FROM gandy.manifest WHERE next_look_at <= gandy.now() GROUP BY manifest_group_id) d
JOIN gandy.manifest_group g ON g.id = d.id;

-- name: load_few_due
-- The manifests that are due for a look, in any order; the caller asks for one more than it takes.
SELECT v.* FROM gandy.manifest_dispatch v WHERE v.next_look_at <= gandy.now() LIMIT %(limit)s;

-- name: load_all_due
-- All manifests that are due for a look.
SELECT v.* FROM gandy.manifest_dispatch v WHERE v.next_look_at <= gandy.now() ORDER BY v.id;

-- name: load_shares
-- The share of each group, by priority, then longest due first; with free_first, manifests that no guard blocks come first.
WITH due AS MATERIALIZED (
    SELECT id, manifest_group_id,
           row_number() OVER (PARTITION BY manifest_group_id ORDER BY
               CASE WHEN %(free_first)s::boolean THEN active_run_id IS NOT NULL
                   OR EXISTS (SELECT 1 FROM gandy.work_queue q WHERE q.manifest_id = manifest.id AND q.status = 'queued')
                   OR EXISTS (SELECT 1 FROM gandy.dead_letter l
                              WHERE l.manifest_id = manifest.id AND l.status = 'awaiting_intervention') END,
               priority DESC, next_look_at, id) AS place
    FROM gandy.manifest WHERE next_look_at <= gandy.now()
), share AS MATERIALIZED (
    SELECT %(shares)s::jsonb AS of_group
), chosen AS MATERIALIZED (
    SELECT due.id FROM due, share WHERE due.place <= (share.of_group ->> due.manifest_group_id::text)::bigint
)
SELECT v.* FROM gandy.manifest_dispatch v WHERE v.id = ANY(ARRAY(SELECT id FROM chosen)) ORDER BY v.id;

-- name: load_views
-- The same snapshot, by id.
SELECT v.* FROM gandy.manifest_dispatch v WHERE v.id = ANY(%(ids)s::bigint[]) ORDER BY v.id;

-- name: next_look
-- The seconds that the manager may sleep.
SELECT extract(epoch FROM next_look_at - gandy.now())::float8 AS seconds FROM gandy.manifest
WHERE next_look_at IS NOT NULL ORDER BY next_look_at LIMIT 1;

-- name: advance_manifests
-- Apply verdicts: each advances its manifest if its row version is unchanged (optimistic locking), and writes its entry.
-- A conflicting entry fails the whole batch: to check each would cost more than the rare halving.
WITH decided AS MATERIALIZED (
    SELECT * FROM unnest(
        %(id)s::bigint[], %(version)s::xid[], %(cursor)s::timestamptz[], %(next_cursor)s::timestamptz[],
        %(next_look)s::timestamptz[], %(due_at)s::timestamptz[], %(scheduled_at)s::timestamptz[], %(origin)s::text[],
        %(skip_reason)s::text[])
        AS d(id, version, cursor, next_cursor, next_look, due_at, scheduled_at, origin, skip_reason)
), locked AS MATERIALIZED (
    -- in the order of ids and without waiting: a manifest that is locked elsewhere is decided again in the next cycle
    SELECT d.*, m.ctid AS place FROM decided d JOIN gandy.manifest m ON m.id = d.id
    WHERE m.next_scheduled_run IS NOT DISTINCT FROM d.cursor AND m.xmin = d.version
    ORDER BY m.id FOR NO KEY UPDATE OF m SKIP LOCKED
), moved AS (
    UPDATE gandy.manifest m SET
        next_scheduled_run = d.next_cursor, next_look_at = d.next_look, last_skip_reason = d.skip_reason
    FROM locked d WHERE m.ctid = d.place
    RETURNING m.id, m.owner, m.name, m.properties, m.property_type_name, m.manifest_group_id, m.priority,
              m.active_run_id, d.due_at, d.scheduled_at, d.origin
), seed AS MATERIALIZED (
    -- external ids differ in the id alone: another random one for each entry costs as much as an index
    SELECT left(gen_random_uuid()::text, 24) AS prefix
), queued AS (
    INSERT INTO gandy.work_queue (
        id, external_id, owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate,
        due_at, scheduled_at, created_at)
    SELECT moved.entry_id, (seed.prefix || lpad(to_hex(moved.entry_id), 12, '0'))::uuid, owner, name,
           CASE WHEN origin = 'dependent' THEN coalesce((
               SELECT d.output FROM gandy.manifest_dependency d WHERE d.child_id = moved.id AND d.is_output_passed), properties)
           ELSE properties END, property_type_name, id, manifest_group_id, priority, origin,
           CASE WHEN active_run_id IS NOT NULL THEN 'manifest' WHEN scheduled_at > now.now THEN 'time' ELSE 'open' END,
           -- an event has no scheduled instant: two within one microsecond need different due_at values
           CASE WHEN origin = 'dependent' THEN coalesce((
               SELECT max(q.due_at) + interval '1 microsecond' FROM gandy.work_queue q
               WHERE q.manifest_id = moved.id AND q.attempt = 1
               AND q.due_at >= moved.due_at AND q.due_at < moved.due_at + interval '1 millisecond'), due_at) ELSE due_at END,
           scheduled_at, now.now
    FROM (SELECT *, nextval('gandy.attempt_id') AS entry_id FROM moved WHERE due_at IS NOT NULL OFFSET 0) moved,
         seed, (SELECT gandy.now() AS now) now
), seen AS (
    -- as of the snapshot of this statement: an end that commits later makes the dependent due again
    UPDATE gandy.manifest_edge e SET seen = d.ended, (success_seen, failure_seen, end_seen) = (
        SELECT p.success_count, p.final_failure_count, p.end_count FROM gandy.manifest p WHERE p.id = e.parent_id)
    FROM moved JOIN gandy.manifest_dependency d ON d.child_id = moved.id
    WHERE moved.origin = 'dependent' AND moved.due_at IS NOT NULL AND e.child_id = d.child_id AND e.parent_id = d.parent_id
), seen_before AS (
    -- the edges of another version of the application see the same ends
    UPDATE gandy.manifest_former_edge f SET
        (success_seen, failure_seen, end_seen) = (
            SELECT p.success_count, p.final_failure_count, p.end_count FROM gandy.manifest p WHERE p.id = f.parent_id),
        output_seen = CASE WHEN f.output_seen IS NOT NULL THEN coalesce(
            (SELECT o.success_count FROM gandy.manifest_output o WHERE o.manifest_id = f.parent_id), f.output_seen) END
    FROM moved WHERE moved.origin = 'dependent' AND moved.due_at IS NOT NULL AND f.child_id = moved.id
)
SELECT id, due_at IS NOT NULL AS is_queued FROM moved;

-- name: step_back
-- Another entry of the manifest is queued: restore the cursor, so that the instant is deferred, not lost.
UPDATE gandy.manifest m SET next_scheduled_run = d.cursor, next_look_at = NULL
FROM unnest(%(id)s::bigint[], %(cursor)s::timestamptz[]) AS d(id, cursor)
WHERE m.id = d.id AND NOT EXISTS (
    SELECT 1 FROM gandy.work_queue q WHERE q.manifest_id = d.id AND q.due_at = d.cursor AND q.attempt = 1)
RETURNING m.id;

-- name: extend_skips
-- Consecutive skipped instants with the same reason share one row.
UPDATE gandy.work_queue q SET due_until = d.due_until, occurrences = q.occurrences + d.occurrences, settled_at = gandy.now()
FROM unnest(%(manifest_id)s::bigint[], %(due_until)s::timestamptz[], %(occurrences)s::bigint[], %(reason)s::text[])
     AS d(manifest_id, due_until, occurrences, reason)
JOIN gandy.manifest m ON m.id = d.manifest_id
WHERE q.id = m.last_skip_id AND q.status = 'skipped' AND q.reason = d.reason
RETURNING q.manifest_id;

-- name: record_skips
-- One row per manifest and reason; the manifest refers to the last one, which can be extended.
WITH decided AS MATERIALIZED (
    SELECT * FROM unnest(
        %(manifest_id)s::bigint[], %(due_at)s::timestamptz[], %(due_until)s::timestamptz[], %(occurrences)s::bigint[],
        %(reason)s::text[], %(error)s::text[]) AS d(manifest_id, due_at, due_until, occurrences, reason, error)
), made AS (
    INSERT INTO gandy.work_queue (
        owner, train_name, manifest_id, manifest_group_id, priority, status, reason, error, origin, due_at, due_until,
        occurrences, scheduled_at, created_at)
    SELECT m.owner, m.name, m.id, m.manifest_group_id, m.priority, 'skipped', d.reason, d.error,
           CASE WHEN m.schedule_type = 'dependent' THEN 'dependent' ELSE 'schedule' END, d.due_at, d.due_until,
           d.occurrences, d.due_at, gandy.now()
    FROM decided d JOIN gandy.manifest m ON m.id = d.manifest_id
    ON CONFLICT DO NOTHING
    RETURNING id, manifest_id
)
UPDATE gandy.manifest m SET last_skip_id = latest.id
FROM (SELECT manifest_id, max(id) AS id FROM made GROUP BY manifest_id) latest
WHERE m.id = latest.manifest_id
RETURNING m.id;

-- name: set_looks
-- Corrects next_look_at, unless the manifest changed meanwhile.
UPDATE gandy.manifest m SET next_look_at = d.next_look
FROM unnest(%(id)s::bigint[], %(version)s::text[], %(next_look)s::timestamptz[]) AS d(id, version, next_look)
WHERE m.id = d.id AND m.xmin::text = d.version
RETURNING m.id;
