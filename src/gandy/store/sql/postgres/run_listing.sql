-- name: search_runs
-- Newest first; ids ascend in the order of creation. The walk is bounded: a last row with place = searched marks the limit.
-- Live runs, which are few, are read by their index and then sorted.
WITH live AS MATERIALIZED (
    SELECT id, owner, train_name, train_state, manifest_id, attempt, due_at, start_time,
           nullif(start_time, start_time) AS end_time, NULL AS failure_exception, NULL AS failure_reason,  -- typed, and null
           manifest_group_id, input
    FROM gandy.work_queue
    WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND (%(owner)s::text IS NULL OR owner = %(owner)s)
)
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.name = %(train)s)
           AND (%(state)s::text IS NULL OR w.train_state = %(state)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.start_time >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.start_time < %(until)s) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                     manifest_group_id, input
            FROM gandy.history WHERE id < %(before)s ORDER BY id DESC LIMIT %(searched)s) h
        UNION ALL
        SELECT * FROM (
            SELECT * FROM live WHERE id < %(before)s ORDER BY id DESC LIMIT %(searched)s) q
        ORDER BY id DESC LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.id DESC LIMIT %(limit)s;

-- name: search_live_runs
-- Unfinished runs, which are few, by their index; they are sorted after it, so that the order cannot choose another one.
WITH live AS MATERIALIZED (
    SELECT id, owner, train_name, train_state, manifest_id, attempt, due_at, start_time, manifest_group_id, input
    FROM gandy.work_queue
    WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND (%(owner)s::text IS NULL OR owner = %(owner)s)
)
SELECT r.id, r.owner, r.train_name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, NULL::timestamptz AS end_time, NULL::text AS failure_exception, NULL::text AS failure_reason,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(state)s::text IS NULL OR w.train_state = %(state)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.start_time >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.start_time < %(until)s) AS is_match
    FROM (SELECT * FROM live WHERE id < %(before)s ORDER BY id DESC LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.id DESC LIMIT %(limit)s;

-- name: search_unsuccessful_runs
-- Failed and cancelled runs of all owners or of one, each by an index: bounds and order are written so that no other can serve.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.train_state DESC, w.id DESC) AS place,
           (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.start_time >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.start_time < %(until)s) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                     manifest_group_id, input
            FROM gandy.history
            WHERE %(owner)s::text IS NULL AND train_state <> 'completed' AND train_state >= %(state)s
              AND (train_state, id) < (%(state)s, %(before)s)
            ORDER BY train_state DESC, id DESC LIMIT %(searched)s) a
        UNION ALL
        SELECT * FROM (
            SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                     manifest_group_id, input
            FROM gandy.history
            WHERE train_state <> 'completed' AND (owner, train_state) >= (%(owner)s, %(state)s)
              AND (owner, train_state, id) < (%(owner)s, %(state)s, %(before)s)
            ORDER BY owner DESC, train_state DESC, id DESC LIMIT %(searched)s) o) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.train_state DESC, r.id DESC LIMIT %(limit)s;

-- name: search_runs_of_manifest
-- Its history by index, and its live run, if any, by the manifest's active_run_id.
WITH wanted AS MATERIALIZED (
    SELECT id, external_id, active_run_id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = %(manifest)s)
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, %(manifest)s::text AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.name = %(train)s)
           AND (%(state)s::text IS NULL OR w.train_state = %(state)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.start_time >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.start_time < %(until)s) AS is_match
    FROM (
        SELECT h.*, row_number() OVER (ORDER BY h.manifest_id DESC, h.id DESC) AS place
        FROM (SELECT manifest_id, id, owner, name, train_state, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                     manifest_group_id, input
              FROM gandy.history
              WHERE manifest_id >= (SELECT id FROM wanted) AND (manifest_id, id) < ((SELECT id FROM wanted), %(before)s)
              ORDER BY manifest_id DESC, id DESC LIMIT %(searched)s) h
        UNION ALL
        SELECT manifest_id, id, owner, train_name, train_state, attempt, due_at, start_time, NULL, NULL, NULL,
               manifest_group_id, input, 0
        FROM gandy.work_queue
        WHERE id = (SELECT active_run_id FROM wanted) AND train_state IS NOT NULL AND id < %(before)s) w) r
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.manifest_id DESC, r.id DESC LIMIT %(limit)s;

-- name: gather_runs
-- All runs of these owners, or of one of their trains, if there are few; otherwise the first row has place = searched.
-- Live runs have no index by train.
WITH live AS MATERIALIZED (
    SELECT train_name, start_time, id, owner, train_state, manifest_id, attempt, due_at, manifest_group_id, input
    FROM gandy.work_queue
    WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND owner = ANY(%(owners)s::text[])
)
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.name = %(train)s)
           AND (%(state)s::text IS NULL OR w.train_state = %(state)s) AND w.id < %(before)s
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.start_time >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.start_time < %(until)s) AS is_match
    FROM (
        SELECT h.*, row_number() OVER () AS place
        FROM (
            SELECT of_owner.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT name, start_time, id, owner, train_state, manifest_id, attempt, due_at, end_time, failure_exception,
                       failure_reason, manifest_group_id, input
                FROM gandy.history WHERE %(train)s::text IS NULL AND owner = wanted.owner
                ORDER BY name, start_time LIMIT %(searched)s) of_owner
            UNION ALL
            SELECT of_train.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT name, start_time, id, owner, train_state, manifest_id, attempt, due_at, end_time, failure_exception,
                       failure_reason, manifest_group_id, input
                FROM gandy.history
                WHERE owner = wanted.owner AND name = %(train)s AND start_time >= coalesce(%(since)s::timestamptz, '-infinity')
                  AND start_time < coalesce(%(until)s::timestamptz, 'infinity')
                ORDER BY start_time DESC LIMIT %(searched)s) of_train
            LIMIT %(searched)s) h
        UNION ALL
        SELECT l.train_name, l.start_time, l.id, l.owner, l.train_state, l.manifest_id, l.attempt, l.due_at, NULL, NULL, NULL,
               l.manifest_group_id, l.input,
               CASE WHEN row_number() OVER () = 4 * %(searched)s THEN %(searched)s ELSE 0 END
        FROM (SELECT * FROM live WHERE id < %(before)s ORDER BY id DESC LIMIT 4 * %(searched)s) l) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.place = %(searched)s DESC, r.id DESC LIMIT %(limit)s;

-- name: search_runs_by_start
-- The runs of one train of one owner, the latest start first, by the index of owners, trains and starts.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.start_time DESC, w.id DESC) AS place,
           (%(state)s::text IS NULL OR w.train_state = %(state)s)
           AND (%(manifest)s::text IS NULL OR w.manifest_id = (SELECT id FROM gandy.manifest
                              WHERE owner = %(owner)s AND external_id = %(manifest)s))
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.start_time >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.start_time < %(until)s) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                   manifest_group_id, input
            FROM gandy.history
            WHERE owner = %(owner)s AND name = %(train)s AND start_time >= coalesce(%(since)s::timestamptz, '-infinity')
              AND start_time < coalesce(%(until)s::timestamptz, 'infinity') AND start_time <= %(last)s AND (start_time, id) < (%(last)s, %(before)s)
            ORDER BY start_time DESC, id DESC LIMIT %(searched)s) h
        UNION ALL
        SELECT * FROM (
            SELECT id, owner, train_name, train_state, manifest_id, attempt, due_at, start_time, NULL::timestamptz, NULL::text, NULL::text,
                   manifest_group_id, input
            FROM gandy.work_queue
            WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND owner = %(owner)s
              AND train_name = %(train)s AND (start_time, id) < (%(last)s, %(before)s)
            ORDER BY start_time DESC, id DESC LIMIT %(searched)s) q
        ORDER BY start_time DESC, id DESC LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.start_time DESC, r.id DESC LIMIT %(limit)s;
