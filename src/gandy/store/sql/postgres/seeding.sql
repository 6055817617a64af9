-- name: lock_seeding
-- Serialises the seeding of servers of one application that start together.
SELECT pg_advisory_xact_lock(hashtext('gandy_seed'), hashtext(%(owner)s));

-- name: find_declared
-- The stored declarations, to compare with the new ones.
SELECT external_id, owner, origin, declared, orphaned_at IS NOT NULL AS is_orphaned
FROM gandy.manifest WHERE owner = %(owner)s AND external_id = ANY(%(external_ids)s::text[]);

-- name: lock_declared
-- Changed manifests are read again under their locks, so that no cursor is set back.
SELECT m.id, m.external_id, m.declared, m.overrides, m.next_scheduled_run, m.scheduled_at, m.completed_at,
       m.used_instants, m.is_enabled, m.orphaned_at IS NOT NULL AS is_orphaned, m.origin, m.owner
FROM gandy.manifest m WHERE m.owner = %(owner)s AND m.external_id = ANY(%(external_ids)s::text[]) ORDER BY m.id FOR NO KEY UPDATE;

-- name: load_ancestors
-- The ancestors of parents that were not declared in this seeding; all belong to the same application.
WITH RECURSIVE chain AS (
    SELECT id, external_id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = ANY(%(external_ids)s::text[])
    UNION
    SELECT m.id, m.external_id FROM chain
    -- LIMIT (no manifest has more parents), so that only the indexes on ids can serve, whatever the statistics say
    CROSS JOIN LATERAL (SELECT parent_id FROM gandy.manifest_edge WHERE child_id = chain.id LIMIT 1000) e
    CROSS JOIN LATERAL (SELECT id, external_id, owner FROM gandy.manifest WHERE id = e.parent_id LIMIT 1) m
    WHERE m.owner = %(owner)s
)
SELECT c.external_id, d.parent FROM chain c LEFT JOIN gandy.manifest_dependency d ON d.child_id BETWEEN c.id AND c.id;

-- name: drop_edges
-- Edges that are no longer declared, or not as they are stored. What they have seen is kept: a changed one is written again
-- at once, another one perhaps by the next deploy. Activations are events of their own, and count nothing.
WITH dropped AS (
    DELETE FROM gandy.manifest_edge e
    USING unnest(%(child_id)s::bigint[], %(kept)s::text[]) AS k(child_id, kept), gandy.manifest p
    WHERE e.child_id = k.child_id AND p.id = e.parent_id
      AND (k.kept::jsonb ->> p.external_id) IS DISTINCT FROM e.kind || CASE WHEN e.is_output_passed THEN '+output' ELSE '' END
    RETURNING e.*
)
INSERT INTO gandy.manifest_former_edge (child_id, parent_id, success_seen, failure_seen, end_seen, output_seen, dropped_at)
SELECT child_id, parent_id, success_seen, failure_seen, end_seen, CASE WHEN is_output_passed THEN seen END, gandy.now()
FROM dropped WHERE kind <> 'activation'
ON CONFLICT (child_id, parent_id) DO NOTHING;

-- name: insert_edges
-- A new edge counts the parent's ends from now on, one that was declared before those that it has not seen. Subqueries, so
-- that each manifest is found by the index.
WITH given AS MATERIALIZED (
    SELECT c.id AS child_id, p.id AS parent_id, p.success_count, p.final_failure_count, p.end_count,
           r.place, r.kind, r.is_output_passed
    FROM unnest(%(child)s::text[], %(parent)s::text[], %(place)s::smallint[], %(kind)s::text[], %(is_output_passed)s::bool[])
         AS r(child, parent, place, kind, is_output_passed)
    CROSS JOIN LATERAL (SELECT id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = r.child LIMIT 1) c
    CROSS JOIN LATERAL (SELECT id, success_count, final_failure_count, end_count FROM gandy.manifest
                        WHERE owner = %(owner)s AND external_id = r.parent LIMIT 1) p
), former AS (
    DELETE FROM gandy.manifest_former_edge f USING given g
    WHERE f.child_id = g.child_id AND f.parent_id = g.parent_id AND g.kind <> 'activation'  -- which counts nothing
    RETURNING f.child_id, f.parent_id, f.success_seen, f.failure_seen, f.end_seen, f.output_seen
), counted AS (
    SELECT g.*, coalesce(f.success_seen, g.success_count) AS success_seen,
           coalesce(f.failure_seen, g.final_failure_count) AS failure_seen, coalesce(f.end_seen, g.end_count) AS end_seen,
           f.output_seen
    FROM given g LEFT JOIN former f ON f.child_id = g.child_id AND f.parent_id = g.parent_id
)
INSERT INTO gandy.manifest_edge (
    child_id, parent_id, seen, place, kind, is_output_passed, success_seen, failure_seen, end_seen)
SELECT child_id, parent_id,
       CASE kind WHEN 'success' THEN CASE WHEN is_output_passed THEN coalesce(output_seen, success_seen) ELSE success_seen END
                 WHEN 'failure' THEN failure_seen WHEN 'end' THEN end_seen ELSE 0 END,
       place, kind, is_output_passed, success_seen, failure_seen, end_seen
FROM counted
ON CONFLICT (child_id, parent_id) DO UPDATE SET place = excluded.place;

-- name: adopt_outputs
-- Dependents begin to take the output of their parent, perhaps again. It may not have been kept meanwhile, so take that of the
-- last success, if its run is on record.
INSERT INTO gandy.manifest_output (manifest_id, success_count, output)
SELECT p.id, p.success_count, coalesce(h.output, 'null'::json)
FROM (SELECT DISTINCT e.parent_id FROM gandy.manifest c CROSS JOIN LATERAL (
          SELECT parent_id FROM gandy.manifest_edge WHERE child_id = c.id AND is_output_passed LIMIT 1) e
      WHERE c.owner = %(owner)s AND c.external_id = ANY(%(children)s::text[])) e
CROSS JOIN LATERAL (SELECT id, success_count, last_successful_run_id FROM gandy.manifest WHERE id = e.parent_id LIMIT 1) p
CROSS JOIN LATERAL (SELECT output FROM gandy.history WHERE id = p.last_successful_run_id LIMIT 1) h
ON CONFLICT (manifest_id) DO UPDATE SET success_count = excluded.success_count, output = excluded.output
WHERE manifest_output.success_count < excluded.success_count;

-- name: drop_stale_outputs
-- An older output than that of the last success is never taken.
DELETE FROM gandy.manifest_output o
USING (SELECT DISTINCT e.parent_id FROM gandy.manifest c CROSS JOIN LATERAL (
           SELECT parent_id FROM gandy.manifest_edge WHERE child_id = c.id AND is_output_passed LIMIT 1) e
       WHERE c.owner = %(owner)s AND c.external_id = ANY(%(children)s::text[])) e
CROSS JOIN LATERAL (SELECT success_count FROM gandy.manifest WHERE id = e.parent_id LIMIT 1) p
WHERE o.manifest_id = e.parent_id AND o.success_count < p.success_count;

-- name: insert_manifests
-- New manifests as a set; their edges follow. The seeding lock keeps others from inserting the same ones; an insertion that
-- allows for them costs a tenth more. All parents are looked up at once: with
-- statistics of an almost empty table, a lookup for each manifest may scan all that was inserted so far.
WITH parents AS MATERIALIZED (
    SELECT jsonb_object_agg(p.external_id, p.id) AS found
    FROM gandy.manifest p WHERE p.owner = %(owner)s AND p.external_id = ANY(%(parent)s::text[])
)
INSERT INTO gandy.manifest (
    external_id, owner, name, manifest_group_id, properties, property_type_name, schedule_type, cron_expression,
    interval_seconds, timezone, scheduled_at, depends_on_manifest_id, /* options: columns */
    priority, origin, batch, is_enabled, disabled_at, declared, next_scheduled_run, next_look_at,
    created_at, updated_at)
SELECT r.external_id, %(owner)s, r.name, r.manifest_group_id, r.properties::json, r.property_type_name, r.schedule_type,
    r.cron_expression, r.interval_seconds, r.timezone, r.scheduled_at,
    (parents.found ->> r.parent)::bigint,
    /* options: values */ r.priority, %(origin)s, r.batch,
    r.is_enabled, CASE WHEN NOT r.is_enabled THEN gandy.now() END, r.declared::json, r.next_scheduled_run, r.next_look_at,
    gandy.now(), gandy.now()
FROM parents, unnest(
    %(external_id)s::text[], %(name)s::text[], %(manifest_group_id)s::bigint[], %(properties)s::text[],
    %(property_type_name)s::text[], %(schedule_type)s::text[], %(cron_expression)s::text[],
    %(interval_seconds)s::float8[], %(timezone)s::text[], %(scheduled_at)s::timestamptz[], %(parent)s::text[],
    /* options: arrays */ %(priority)s::smallint[], %(batch)s::text[], %(is_enabled)s::bool[],
    %(declared)s::text[], %(next_scheduled_run)s::timestamptz[], %(next_look_at)s::timestamptz[])
    AS r(external_id, name, manifest_group_id, properties, property_type_name, schedule_type, cron_expression,
         interval_seconds, timezone, scheduled_at, parent, /* options: columns */ priority, batch, is_enabled, declared, next_scheduled_run, next_look_at);

-- name: update_manifests
-- Changed declarations or overrides: write the effective values, and the cursor if the schedule changed.
UPDATE gandy.manifest m SET
    name = r.name, manifest_group_id = r.manifest_group_id, properties = r.properties::json,
    property_type_name = r.property_type_name, schedule_type = r.schedule_type, cron_expression = r.cron_expression,
    interval_seconds = r.interval_seconds, timezone = r.timezone, scheduled_at = r.scheduled_at,
    depends_on_manifest_id = p.id,
    /* options: changes */ priority = r.priority, origin = r.origin, batch = r.batch,
    is_enabled = r.is_enabled,
    disabled_at = CASE WHEN r.is_enabled THEN NULL ELSE coalesce(m.disabled_at, gandy.now()) END,
    disabled_reason = CASE WHEN r.is_enabled THEN NULL ELSE coalesce(r.reason, m.disabled_reason) END,
    enabled_at = CASE WHEN r.is_enabled AND (NOT m.is_enabled OR (m.orphaned_at IS NOT NULL AND NOT r.is_orphaned)) THEN gandy.now()
                      ELSE m.enabled_at END,
    has_dependents_due = m.has_dependents_due OR (r.is_enabled AND NOT m.is_enabled AND m.end_count > 0),
    orphaned_at = CASE WHEN r.is_orphaned THEN m.orphaned_at END, declared = r.declared::json, overrides = r.overrides::json,
    next_scheduled_run = r.next_scheduled_run,
    next_look_at = CASE WHEN m.next_look_at <= gandy.now() THEN m.next_look_at
                        -- failures may already have reached a new limit: a look, in which the manager parks the manifest
                        WHEN r.is_retried AND m.failure_count >= greatest(1, r.max_retries) THEN gandy.now()
                        ELSE r.next_look_at END,
    completed_at = r.completed_at, used_instants = r.used_instants::json, updated_at = gandy.now()
FROM unnest(
    %(external_id)s::text[], %(name)s::text[], %(manifest_group_id)s::bigint[], %(properties)s::text[],
    %(property_type_name)s::text[], %(schedule_type)s::text[], %(cron_expression)s::text[],
    %(interval_seconds)s::float8[], %(timezone)s::text[], %(scheduled_at)s::timestamptz[], %(parent)s::text[],
    /* options: arrays */ %(priority)s::smallint[], %(batch)s::text[], %(is_enabled)s::bool[],
    %(declared)s::text[], %(next_scheduled_run)s::timestamptz[], %(next_look_at)s::timestamptz[],
    %(overrides)s::text[], %(completed_at)s::timestamptz[], %(used_instants)s::text[], %(origin)s::text[], %(is_orphaned)s::bool[], %(reason)s::text[])
    AS r(external_id, name, manifest_group_id, properties, property_type_name, schedule_type, cron_expression,
         interval_seconds, timezone, scheduled_at, parent, /* options: columns */ priority, batch, is_enabled, declared, next_scheduled_run, next_look_at, overrides,
         completed_at, used_instants, origin, is_orphaned, reason)
LEFT JOIN LATERAL (
    SELECT id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = r.parent LIMIT 1) p ON true
WHERE m.owner = %(owner)s AND m.external_id BETWEEN r.external_id AND r.external_id
RETURNING m.id, m.external_id;

-- name: mark_orphans
-- Manifests that the same application no longer declares; never those made at run time.
WITH gone AS MATERIALIZED (
    -- EXCEPT sorts or hashes, which scales to many manifests
    SELECT m.external_id FROM gandy.manifest m
    WHERE m.owner = %(owner)s AND m.origin = 'declared' AND m.orphaned_at IS NULL
      AND (%(is_whole)s OR m.batch = ANY(%(emptied)s::text[]))
      AND NOT (m.batch IS NOT NULL AND m.batch = ANY(%(spared)s::text[]))
    EXCEPT
    SELECT d.external_id COLLATE "C" FROM unnest(%(external_ids)s::text[]) AS d(external_id)
)
UPDATE gandy.manifest m SET orphaned_at = gandy.now(), updated_at = gandy.now()
FROM gone WHERE m.owner = %(owner)s AND m.external_id BETWEEN gone.external_id AND gone.external_id
RETURNING m.external_id;

-- name: lock_group
-- Locks one group before its manifests are changed.
SELECT id, name, declared, overrides, max_active_jobs, priority, is_enabled, disabled_reason
FROM gandy.manifest_group WHERE owner = %(owner)s AND name = %(name)s FOR NO KEY UPDATE;

-- name: update_groups
-- The effective values; enabled_at is set only if the group was switched off before.
UPDATE gandy.manifest_group g SET
    declared = r.declared::json, overrides = r.overrides::json, max_active_jobs = r.max_active_jobs,
    priority = r.priority,
    enabled_at = CASE WHEN r.is_enabled AND NOT g.is_enabled THEN gandy.now() ELSE g.enabled_at END,
    disabled_at = CASE WHEN r.is_enabled THEN NULL ELSE coalesce(g.disabled_at, gandy.now()) END,
    disabled_reason = CASE WHEN r.is_enabled THEN NULL ELSE r.reason END,
    is_enabled = r.is_enabled, updated_at = gandy.now()
FROM unnest(%(id)s::bigint[], %(declared)s::text[], %(overrides)s::text[], %(max_active_jobs)s::int[],
            %(priority)s::smallint[], %(is_enabled)s::bool[], %(reason)s::text[])
     AS r(id, declared, overrides, max_active_jobs, priority, is_enabled, reason)
WHERE g.id = r.id AND g.owner = %(owner)s;

-- name: spread_group_priority
-- A manifest without a priority of its own takes its group's.
UPDATE gandy.manifest m SET priority = g.priority, updated_at = gandy.now()
FROM gandy.manifest_group g
WHERE g.id = m.manifest_group_id AND g.id = ANY(%(ids)s::bigint[]) AND g.owner = %(owner)s AND m.owner = %(owner)s
  AND m.priority <> g.priority
  AND coalesce(m.overrides ->> 'priority', m.declared ->> 'priority') IS NULL;

-- name: wake_groups
-- After a group is switched on: a look at each manifest, for verdicts on the instants that passed meanwhile.
UPDATE gandy.manifest m SET next_look_at = gandy.now()
WHERE m.manifest_group_id = ANY(%(ids)s::bigint[]) AND m.owner = %(owner)s AND m.is_enabled AND m.orphaned_at IS NULL
  AND (m.next_scheduled_run IS NOT NULL OR m.schedule_type = 'dependent')
RETURNING m.id;

-- name: retrain_entries
-- The train of a manifest has changed: its entries take the new train. Entries of its schedule take the new input, too; an
-- input that was given for one run stays. The caller holds the manifests' locks.
UPDATE gandy.work_queue q SET
    train_name = m.name, input_type_name = m.property_type_name,
    input = CASE WHEN q.status = 'queued' AND q.origin IN ('schedule', 'dependent') AND NOT EXISTS (
                     SELECT 1 FROM gandy.manifest_edge e WHERE e.child_id = m.id AND e.is_output_passed)
                 THEN m.properties ELSE q.input END,
    gate = CASE WHEN q.gate = 'train' THEN 'open' ELSE q.gate END
FROM gandy.manifest m
WHERE q.manifest_id = m.id AND m.id = ANY(%(ids)s::bigint[]) AND m.owner = %(owner)s
  AND q.status IN ('queued', 'waiting') AND q.train_name <> m.name;

-- name: regate_entries
-- Recomputes the gates of queued entries after a change of their manifest; the caller holds the manifests' locks.
UPDATE gandy.work_queue q SET gate = CASE
    WHEN m.active_run_id IS NOT NULL OR NOT (q.origin = 'trigger' OR m.is_enabled AND m.orphaned_at IS NULL) THEN 'manifest'
    WHEN q.scheduled_at > gandy.now() THEN 'time' ELSE 'open' END
FROM gandy.manifest m
WHERE q.manifest_id = m.id AND m.id = ANY(%(ids)s::bigint[]) AND m.owner = %(owner)s
  AND q.status = 'queued' AND q.gate <> 'train';
