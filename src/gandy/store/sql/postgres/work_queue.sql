-- name: queue_work
-- Ad-hoc entries as a set, and the notification of workers; a future entry gets the gate 'time'.
-- Returns no rows if the group does not exist yet. It may run under a caller's search_path: functions have a schema, and
-- operands have exactly the types of PostgreSQL's own operator.
WITH told AS MATERIALIZED (SELECT pg_catalog.pg_notify('gandy', %(wake)s)), seed AS MATERIALIZED (
    -- external ids differ in the id alone: another random one for each entry takes a third of the whole statement
    SELECT pg_catalog.left(pg_catalog.gen_random_uuid()::text, 24) AS prefix
), queued AS (
    INSERT INTO gandy.work_queue (
        id, external_id, owner, train_name, input, input_type_name, manifest_group_id, priority, origin, gate, due_at, scheduled_at,
        max_retries, is_retried, retry_delay_seconds, timeout_seconds, unique_key, created_at)
    SELECT w.id, (seed.prefix OPERATOR(pg_catalog.||) pg_catalog.lpad(pg_catalog.to_hex(w.id), 12, '0'))::uuid, %(owner)s, %(train_name)s, w.input::json, %(input_type_name)s,
           g.id, coalesce(%(priority)s::smallint, g.priority), 'ad_hoc',
           CASE WHEN %(delay_seconds)s::float8 > 0::float8 THEN 'time' ELSE 'open' END, t.at, t.at,
           %(max_retries)s, %(is_retried)s, %(retry_delay_seconds)s, %(timeout_seconds)s, w.unique_key, t.now
    FROM (SELECT coalesce(j.id, pg_catalog.nextval('gandy.attempt_id')) AS id, j.input, j.unique_key
          FROM unnest(%(id)s::bigint[], %(input)s::text[], %(unique_key)s::text[]) AS j(id, input, unique_key)
          OFFSET 0) w,  -- so that each id is taken once
         seed, (SELECT gandy.now() AS now, gandy.now() + pg_catalog.make_interval(secs => %(delay_seconds)s::float8) AS at) t,
         gandy.manifest_group g
    WHERE g.owner = %(owner)s AND g.name = %(group)s
    RETURNING id
)
SELECT queued.id FROM told, queued;

-- name: open_due
-- Opens the gate of entries whose instant has come; at most the limit, so that a flood is opened in batches.
UPDATE gandy.work_queue SET gate = 'open'
WHERE id = ANY(ARRAY(
    SELECT id FROM gandy.work_queue
    WHERE owner = %(owner)s AND status = 'queued' AND gate = 'time' AND scheduled_at <= gandy.now()
    ORDER BY scheduled_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
-- by id alone, which the lock above makes safe: with another condition the plan might read every future entry
RETURNING id, owner;

-- name: next_due
-- The seconds that a loop may sleep.
SELECT extract(epoch FROM scheduled_at - gandy.now())::float8 AS seconds FROM gandy.work_queue
WHERE owner = %(owner)s AND status = 'queued' AND gate = 'time' ORDER BY scheduled_at LIMIT 1;

-- name: load_ready
-- Locks the top entries of each group, in dispatch order; SKIP LOCKED, so that concurrent claims take different entries.
-- Subselects hide the arrays from the planner: it would replan for each length, which takes longer than the claim.
SELECT e.* FROM unnest((SELECT %(group_id)s::bigint[]), (SELECT %(share)s::int[])) AS g(id, share)
CROSS JOIN LATERAL (
    SELECT q.id, q.train_name, q.input, q.manifest_id, q.manifest_group_id, q.rank, q.origin,
           q.due_at, q.attempt, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds, q.failures,
           q.losses, q.lone_losses, q.unique_key, q.dead_letter_id, q.scheduled_at
    FROM gandy.work_queue q
    WHERE q.owner = %(owner)s AND q.manifest_group_id = g.id AND q.status = 'queued' AND q.gate = 'open'
      AND q.train_name = ANY((SELECT %(trains)s::text[])::text[])
      AND q.scheduled_at <= (SELECT gandy.now() - make_interval(secs => %(min_age_seconds)s::float8))
    ORDER BY q.rank DESC, q.id LIMIT g.share FOR UPDATE SKIP LOCKED
) e;

-- name: load_ready_of_trains
-- The same for a group that also has entries of trains that the claim cannot run: those are not read at all. BETWEEN, and the
-- train first in the order, so that only the index on trains can serve: while statistics know a single train, the planner
-- holds the index on groups for as good, and would read all entries of the other trains.
SELECT e.* FROM unnest((SELECT %(group_id)s::bigint[]), (SELECT %(train_name)s::text[]), (SELECT %(share)s::int[]))
    AS g(id, train_name, share)
CROSS JOIN LATERAL (
    SELECT q.id, q.train_name, q.input, q.manifest_id, q.manifest_group_id, q.rank, q.origin,
           q.due_at, q.attempt, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds, q.failures,
           q.losses, q.lone_losses, q.unique_key, q.dead_letter_id, q.scheduled_at
    FROM gandy.work_queue q
    WHERE q.owner = %(owner)s AND q.manifest_group_id = g.id AND q.train_name BETWEEN g.train_name AND g.train_name
      AND q.status = 'queued' AND q.gate = 'open'
      AND q.scheduled_at <= (SELECT gandy.now() - make_interval(secs => %(min_age_seconds)s::float8))
    ORDER BY q.train_name, q.rank DESC, q.id LIMIT g.share FOR UPDATE SKIP LOCKED
) e;

-- name: close_early_heads
-- Closes gates that opened before their instant; reads only the top of each train with ready work.
UPDATE gandy.work_queue SET gate = 'time'
WHERE id = ANY(ARRAY(
    SELECT e.id FROM unnest((SELECT %(group_id)s::bigint[]), (SELECT %(train_name)s::text[])) AS g(id, train_name)
    CROSS JOIN LATERAL (
        SELECT q.id, q.scheduled_at FROM gandy.work_queue q
        WHERE q.owner = %(owner)s AND q.manifest_group_id = g.id AND q.train_name = g.train_name
          AND q.status = 'queued' AND q.gate = 'open'
        ORDER BY q.rank DESC, q.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) e WHERE e.scheduled_at > gandy.now()))
RETURNING id;

-- name: load_triggered
-- Of a disabled group, only entries that an operator triggered.
SELECT e.* FROM unnest((SELECT %(group_id)s::bigint[]), (SELECT %(share)s::int[])) AS g(id, share)
CROSS JOIN LATERAL (
    SELECT q.id, q.train_name, q.input, q.manifest_id, q.manifest_group_id, q.rank, q.origin,
           q.due_at, q.attempt, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds, q.failures,
           q.losses, q.lone_losses, q.unique_key, q.dead_letter_id, q.scheduled_at
    FROM gandy.work_queue q
    WHERE q.owner = %(owner)s AND q.manifest_group_id = g.id AND q.status = 'queued' AND q.gate = 'open'
      AND q.origin = 'trigger' AND q.train_name = ANY((SELECT %(trains)s::text[])::text[])
      AND q.scheduled_at <= (SELECT gandy.now() - make_interval(secs => %(min_age_seconds)s::float8))
    ORDER BY q.rank DESC, q.id LIMIT g.share FOR UPDATE SKIP LOCKED
) e;

-- name: dispatch_entries
-- Entries become runs: pending for any worker, or in progress at once for the worker that claims.
-- The entries are locked and queued, so all of them become runs, and one row is returned for all.
WITH claim AS MATERIALIZED (
    -- one instant and one fence for the whole claim
    SELECT t.now, t.now + make_interval(secs => nullif(least(%(default_timeout_seconds)s::float8, 4e9::float8), 4e9::float8)) AS deadline_at,
           CASE WHEN %(worker_id)s::text IS NOT NULL THEN nextval('gandy.fence') END AS fence
    FROM (SELECT gandy.now() AS now) t
), dispatched AS (
    UPDATE gandy.work_queue q SET
        status = 'dispatched', dispatched_at = claim.now, metadata_id = q.id, start_time = claim.now,
        train_state = CASE WHEN claim.fence IS NULL THEN 'pending' ELSE 'in_progress' END,
        -- pending runs are claimed by group priority first, as the dispatcher chooses entries
        claim_rank = CASE WHEN claim.fence IS NULL THEN q.rank + 32 * coalesce((
            SELECT g.priority FROM gandy.manifest_group g WHERE g.id = q.manifest_group_id), 0) END,
        -- more than about 126 years means no deadline (null); a larger value from an older version would overflow
        deadline_at = CASE WHEN q.timeout_seconds IS NULL AND q.manifest_id IS NULL THEN claim.deadline_at
            ELSE claim.now + make_interval(secs => nullif(least(coalesce(
                q.timeout_seconds,
                (SELECT m.timeout_seconds FROM gandy.manifest m WHERE m.id = q.manifest_id),
                %(default_timeout_seconds)s::float8), 4e9::float8), 4e9::float8)) END,
        worker_id = %(worker_id)s, fence = claim.fence
    FROM claim WHERE q.id = ANY(%(ids)s::bigint[]) AND q.status = 'queued'
    RETURNING q.id, q.manifest_id, q.unique_key, q.dead_letter_id
), active AS (
    -- most entries have no manifest, letter or key: the flags save reading the set, the NULL checks a probe for every row
    UPDATE gandy.manifest m SET active_run_id = d.id, last_run_id = d.id
    FROM dispatched d WHERE %(has_manifests)s AND d.manifest_id IS NOT NULL AND m.id = d.manifest_id
), letter AS (
    UPDATE gandy.dead_letter l SET retry_metadata_id = d.id
    FROM dispatched d WHERE %(has_letters)s AND d.dead_letter_id IS NOT NULL AND l.id = d.dead_letter_id
), key AS (
    -- skips a locked key: it has expired and is being taken over
    DELETE FROM gandy.unique_key WHERE (owner, key) IN (
        SELECT k.owner, k.key FROM dispatched d JOIN gandy.unique_key k ON k.holder_id = d.id
        WHERE %(has_keys)s AND d.unique_key IS NOT NULL AND k.held_until = 'start' AND (SELECT fence FROM claim) IS NOT NULL
        FOR UPDATE OF k SKIP LOCKED)
)
SELECT fence, now AS started_at FROM claim;

-- name: claim_plain
-- A whole claim in one statement, where that is all it takes: every group with ready work is enabled, its cap is locked by this
-- transaction or it has none, and what is chosen has no manifest, letter or key. Otherwise no row is returned and none is changed.
-- It chooses as rules/dispatching.py does. The worker's row is locked first, as in ready_groups; caps were locked by a statement
-- before this one, as for count_active_by_group.
WITH RECURSIVE worker AS MATERIALIZED (
    SELECT 1 FROM gandy.worker WHERE id = %(worker_id)s AND state IN ('running', 'draining') FOR KEY SHARE
), ready(group_id, train_name) AS (
    SELECT first.manifest_group_id, first.train_name FROM worker CROSS JOIN LATERAL (
        SELECT q.manifest_group_id, q.train_name FROM gandy.work_queue q
        WHERE q.owner = %(owner)s AND q.status = 'queued' AND q.gate = 'open'
        ORDER BY q.manifest_group_id, q.train_name LIMIT 1) first
    UNION ALL
    SELECT following.manifest_group_id, following.train_name FROM ready CROSS JOIN LATERAL (
        SELECT q.manifest_group_id, q.train_name FROM gandy.work_queue q
        WHERE q.owner = %(owner)s AND q.status = 'queued' AND q.gate = 'open'
          AND (q.manifest_group_id, q.train_name) > (ready.group_id, ready.train_name)
        ORDER BY q.manifest_group_id, q.train_name LIMIT 1) following
), seen AS MATERIALIZED (
    SELECT group_id, train_name FROM ready LIMIT %(most_seen)s::bigint + 1
), known AS MATERIALIZED (
    SELECT s.group_id, s.train_name, coalesce(g.priority, 0) AS priority, g.max_active_jobs AS cap,
           coalesce(g.is_enabled, true) AND (g.max_active_jobs IS NULL OR g.id = ANY((SELECT %(locked)s::bigint[])::bigint[])) AS is_open
    FROM seen s LEFT JOIN gandy.manifest_group g ON g.id = s.group_id
    WHERE s.train_name = ANY((SELECT %(trains)s::text[])::text[])
), active AS MATERIALIZED (
    SELECT manifest_group_id AS group_id, count(*)::int AS active FROM gandy.work_queue
    WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND owner = %(owner)s
      AND manifest_group_id = ANY((SELECT %(locked)s::bigint[])::bigint[])
    GROUP BY manifest_group_id
), room AS MATERIALIZED (
    SELECT k.group_id, k.train_name, k.priority, least(%(limit)s::bigint, k.cap - coalesce(a.active, 0)) AS room
    FROM known k LEFT JOIN active a ON a.group_id = k.group_id
    -- what is locked and not taken is bounded, too
    WHERE (SELECT bool_and(is_open) AND (count(*) = 1 OR count(*) * %(limit)s::bigint <= %(most_locked)s::bigint) FROM known)
      AND (SELECT count(*) FROM seen) <= %(most_seen)s::bigint
), entry AS MATERIALIZED (
    SELECT e.*, room.group_id, room.priority, room.room FROM room CROSS JOIN LATERAL (
        SELECT q.id, q.rank, q.manifest_id IS NULL AND q.dead_letter_id IS NULL AND q.unique_key IS NULL AS is_plain
        FROM gandy.work_queue q
        WHERE q.owner = %(owner)s AND q.manifest_group_id = room.group_id
          AND q.train_name BETWEEN room.train_name AND room.train_name AND q.status = 'queued' AND q.gate = 'open'
          AND q.scheduled_at <= (SELECT gandy.now())
        ORDER BY q.train_name, q.rank DESC, q.id LIMIT greatest(room.room, 0) FOR UPDATE SKIP LOCKED) e
), share AS MATERIALIZED (
    -- if the groups are more than the limit, they take turns; of different priorities, every second turn is in order
    SELECT n.groups, CASE WHEN n.groups <= %(limit)s::bigint THEN greatest(1, %(limit)s::bigint / (2 * n.groups))
                          WHEN n.priorities = 1 OR mod(%(turn)s::bigint, 2) = 1 THEN 1 ELSE 0 END AS most,
           CASE WHEN n.groups <= %(limit)s::bigint THEN 0
                ELSE mod(CASE WHEN n.priorities = 1 THEN %(turn)s::bigint ELSE %(turn)s::bigint / 2 END * %(limit)s::bigint, n.groups) END AS first
    FROM (SELECT count(DISTINCT group_id) AS groups, count(DISTINCT priority) AS priorities FROM entry) n WHERE n.groups > 0
), placed AS (
    SELECT entry.*, row_number() OVER (PARTITION BY group_id ORDER BY rank DESC, id) AS place,
           dense_rank() OVER (ORDER BY group_id) - 1 AS seat
    FROM entry
), picked AS MATERIALIZED (
    SELECT p.id, p.is_plain FROM placed p CROSS JOIN share s
    WHERE p.place <= p.room
    ORDER BY p.place > s.most OR mod(p.seat - s.first + s.groups, s.groups) >= %(limit)s::bigint, p.priority DESC, p.rank DESC, p.id
    LIMIT %(limit)s::bigint
), claim AS MATERIALIZED (
    SELECT gandy.now() AS now, nextval('gandy.fence') AS fence WHERE (SELECT bool_and(is_plain) FROM picked)
)
UPDATE gandy.work_queue q SET
    status = 'dispatched', dispatched_at = claim.now, metadata_id = q.id, start_time = claim.now, train_state = 'in_progress',
    deadline_at = claim.now + make_interval(secs => nullif(least(coalesce(
        q.timeout_seconds, %(default_timeout_seconds)s::float8), 4e9::float8), 4e9::float8)),
    worker_id = %(worker_id)s, fence = claim.fence
FROM claim WHERE q.id = ANY(ARRAY(SELECT id FROM picked)) AND q.status = 'queued'
RETURNING q.id, q.train_name, q.input, q.manifest_id, q.manifest_group_id, q.rank, q.due_at, q.attempt, q.max_retries,
    q.is_retried, q.retry_delay_seconds, q.timeout_seconds, q.failures, q.losses, q.lone_losses, q.unique_key,
    q.scheduled_at, q.fence, q.start_time AS started_at,
    (SELECT count(DISTINCT group_id) FROM room WHERE room > 0) > (SELECT groups FROM share) AS is_contended;

-- name: refuse_entries
-- Entries that the database refuses to turn into runs: skipped with the error, so that they do not block claims.
UPDATE gandy.work_queue q SET status = 'skipped', reason = 'error', error = e.error, settled_at = gandy.now()
FROM unnest(%(id)s::bigint[], %(error)s::text[]) AS e(id, error)
WHERE q.id = e.id AND q.status = 'queued'
RETURNING q.id, q.manifest_id;

-- name: hold_entries
-- The manifest is active or disabled: its entry leaves the index of ready entries until that changes.
UPDATE gandy.work_queue SET gate = 'manifest'
WHERE id = ANY(%(ids)s::bigint[]) AND status = 'queued' AND gate <> 'manifest';

-- name: release_entries
-- The manifest's run is over, or it is enabled again: the entry is ready, or waits for its instant.
UPDATE gandy.work_queue q SET gate = CASE WHEN q.scheduled_at > gandy.now() THEN 'time' ELSE 'open' END
FROM gandy.manifest m
WHERE q.manifest_id = ANY(%(manifest_ids)s::bigint[]) AND q.status = 'queued' AND q.gate = 'manifest'
  AND m.id = q.manifest_id AND m.active_run_id IS NULL
  AND (q.origin = 'trigger' OR m.is_enabled AND m.orphaned_at IS NULL)
RETURNING q.id, q.owner, q.gate = 'open' AS is_ready;

-- name: find_manifests_of_entries
-- The manifests to lock before the runs of these entries are changed.
SELECT DISTINCT manifest_id AS id FROM gandy.work_queue
WHERE id = ANY(%(ids)s::bigint[]) AND manifest_id IS NOT NULL ORDER BY manifest_id;

-- name: put_back_entries
-- Claimed runs that have not begun return to the queue with their keys; if their manifest has a queued entry, that entry is
-- reused. A run that an operator cancelled meanwhile is cancelled.
WITH undone AS MATERIALIZED (
    SELECT q.id, q.owner, q.manifest_id, q.unique_key, coalesce(q.cancellation_reason, '') = 'operator' AS is_cancelled
    FROM gandy.work_queue q
    -- coalesce, so that no index of live runs can serve instead of that on id
    WHERE q.id = ANY(%(ids)s::bigint[]) AND coalesce(q.train_state, '') = 'in_progress' AND q.worker_id = %(worker_id)s
), idle AS (
    UPDATE gandy.manifest m SET active_run_id = NULL FROM undone u WHERE m.id = u.manifest_id AND m.active_run_id = u.id
), key AS (
    INSERT INTO gandy.unique_key (owner, key, holder_id, held_until)
    SELECT u.owner, u.unique_key, u.id, 'start' FROM undone u
    WHERE u.unique_key IS NOT NULL AND NOT u.is_cancelled ORDER BY u.unique_key
    ON CONFLICT DO NOTHING
)
UPDATE gandy.work_queue q SET
    (status, reason) = (SELECT CASE WHEN u.is_cancelled THEN 'cancelled' WHEN count(*) = 0 THEN 'queued' ELSE 'skipped' END,
                               CASE WHEN count(*) > 0 AND NOT u.is_cancelled THEN 'already_queued' END
                        FROM gandy.work_queue w WHERE w.manifest_id = q.manifest_id AND w.status = 'queued'),
    train_name = coalesce((SELECT m.name FROM gandy.manifest m WHERE m.id = q.manifest_id), q.train_name),
    gate = 'open', dispatched_at = NULL, metadata_id = NULL, train_state = NULL, start_time = NULL, deadline_at = NULL,
    worker_id = NULL, fence = NULL, cancellation_requested = false, cancellation_reason = NULL,
    cancellation_requested_at = NULL, is_cancellation_ignored = false, currently_running_junction = NULL,
    progress_done = NULL, progress_total = NULL, delivery_attempts = 0, deliver_after = NULL, delivery_error = NULL
FROM undone u WHERE q.id = u.id AND q.train_state IS NOT NULL
RETURNING q.id, q.owner, q.manifest_id, u.is_cancelled;

-- name: queue_retries
-- The next attempt of failed runs: with the run's own input and instant, and the manifest's current train. Nothing is
-- written if the manifest has a queued entry: the caller decides whether that entry is reused or steps back.
INSERT INTO gandy.work_queue (
    owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, origin, gate, due_at, attempt,
    scheduled_at, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failures, losses, lone_losses,
    unique_key, retry_of, parent_id, created_at)
SELECT h.owner, coalesce((SELECT m.name FROM gandy.manifest m WHERE m.id = h.manifest_id), h.name), h.input, h.input_type_name,
       h.manifest_id, h.manifest_group_id, h.priority, 'retry',
       CASE WHEN NOT r.is_open THEN 'manifest' WHEN r.delay_seconds > 0 THEN 'time' ELSE 'open' END,
       h.due_at, h.attempt + 1, gandy.now() + make_interval(secs => r.delay_seconds),
       h.max_retries, h.is_retried, h.retry_delay_seconds, h.timeout_seconds, r.failures, r.losses, r.lone_losses,
       r.unique_key, h.id, h.parent_id, gandy.now()
FROM unnest(%(id)s::bigint[], %(bucket)s::text[], %(delay_seconds)s::float8[], %(failures)s::int[], %(losses)s::int[],
            %(lone_losses)s::int[], %(unique_key)s::text[], %(is_open)s::bool[])
     AS r(id, bucket, delay_seconds, failures, losses, lone_losses, unique_key, is_open)
-- a run without an origin had no entry: its caller started it
JOIN gandy.history h ON h.id = r.id AND h.bucket = split_part(r.bucket, '/', 1)::date AND h.piece = split_part(r.bucket, '/', 2)::smallint AND h.origin IS NOT NULL
ON CONFLICT DO NOTHING
RETURNING id, retry_of;

-- name: carry_losses
-- A queued entry is reused as the next attempt: it inherits the loss counts of the job.
UPDATE gandy.work_queue q SET losses = greatest(q.losses, c.losses), lone_losses = greatest(q.lone_losses, c.lone_losses)
FROM unnest(%(manifest_id)s::bigint[], %(losses)s::int[], %(lone_losses)s::int[]) AS c(manifest_id, losses, lone_losses)
WHERE q.manifest_id = c.manifest_id AND q.status = 'queued';

-- name: cancel_entries
-- Conditional: an entry that was dispatched meanwhile is cancelled as a run instead.
UPDATE gandy.work_queue SET status = 'cancelled', settled_at = gandy.now()
WHERE id = ANY(%(ids)s::bigint[]) AND (%(owner)s::text IS NULL OR owner = %(owner)s) AND status IN ('queued', 'waiting')
RETURNING id, manifest_id, unique_key;

-- name: hold_unknown_trains
-- Holds entries of trains that no live worker knows, at the top of each group, where they would block all others.
WITH RECURSIVE ready(id) AS (
    (SELECT manifest_group_id FROM gandy.work_queue
     WHERE owner = %(owner)s AND status = 'queued' AND gate = 'open'
     ORDER BY manifest_group_id LIMIT 1)
    UNION ALL
    SELECT (SELECT q.manifest_group_id FROM gandy.work_queue q
            WHERE q.owner = %(owner)s AND q.status = 'queued' AND q.gate = 'open' AND q.manifest_group_id > ready.id
            ORDER BY q.manifest_group_id LIMIT 1)
    FROM ready WHERE ready.id IS NOT NULL
), unknown AS MATERIALIZED (
    SELECT top.id FROM ready CROSS JOIN LATERAL (
        SELECT q.id, q.train_name FROM gandy.work_queue q
        WHERE q.owner = %(owner)s AND q.manifest_group_id = ready.id AND q.status = 'queued' AND q.gate = 'open'
        ORDER BY q.rank DESC, q.id LIMIT %(limit)s) top
    WHERE NOT (top.train_name = ANY(%(trains)s::text[]))
), locked AS MATERIALIZED (
    -- a condition that no index can serve, so that the rows are found by id
    SELECT q.id FROM gandy.work_queue q WHERE q.id = ANY(ARRAY(SELECT id FROM unknown)) AND q.status || q.gate = 'queuedopen'
    ORDER BY q.id FOR UPDATE SKIP LOCKED
)
UPDATE gandy.work_queue SET gate = 'train' WHERE id = ANY(ARRAY(SELECT id FROM locked))
RETURNING id;

-- name: release_known_trains
-- A worker that knows the train has registered.
UPDATE gandy.work_queue SET gate = CASE WHEN scheduled_at > gandy.now() THEN 'time' ELSE 'open' END
WHERE owner = %(owner)s AND status = 'queued' AND gate = 'train' AND train_name = ANY(%(trains)s::text[])
RETURNING id;
