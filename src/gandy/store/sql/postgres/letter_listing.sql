-- name: search_letters
-- Newest first, of all owners or of one; ids ascend in the order of writing. Bounds and order of the second branch are
-- written so that only the index led by the owner can serve.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(status)s::text IS NULL OR w.status = %(status)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.dead_lettered_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.dead_lettered_at < %(until)s) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                   manifest_group_id, input
            FROM gandy.dead_letter WHERE %(owner)s::text IS NULL AND id < %(before)s ORDER BY id DESC LIMIT %(searched)s) a
        UNION ALL
        SELECT * FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                   manifest_group_id, input
            FROM gandy.dead_letter
            WHERE owner >= %(owner)s AND (owner, id) < (%(owner)s, %(before)s)
            ORDER BY owner DESC, id DESC LIMIT %(searched)s) o) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.id DESC LIMIT %(limit)s;

-- name: gather_letters
-- All awaiting letters of these owners, or all resolved ones, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, w.id < %(before)s AND (%(owner)s::text IS NULL OR w.owner = %(owner)s)
           AND (%(train)s::text IS NULL OR w.train_name = %(train)s) AND w.status = %(status)s
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.dead_lettered_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.dead_lettered_at < %(until)s) AS is_match
    FROM (
        SELECT a.*, row_number() OVER () AS place FROM (
            SELECT l.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at,
                       resolved_by, manifest_group_id, input
                FROM gandy.dead_letter
                WHERE status = 'awaiting_intervention' AND %(status)s::text = 'awaiting_intervention' AND owner = wanted.owner
                ORDER BY train_name, id LIMIT %(searched)s) l
            LIMIT %(searched)s) a
        UNION ALL
        SELECT d.*, row_number() OVER () FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                 manifest_group_id, input
            FROM gandy.dead_letter
            WHERE status <> 'awaiting_intervention' AND %(status)s::text <> 'awaiting_intervention'
            ORDER BY resolved_at DESC, id DESC LIMIT %(searched)s) d) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.place = %(searched)s DESC, r.id DESC LIMIT %(limit)s;

-- name: search_letters_of_manifest
-- By the manifest's own index: bounds and order are written so that no other index can serve.
SELECT r.id, r.owner, %(manifest)s::text AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.manifest_id DESC, w.id DESC) AS place,
           (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(status)s::text IS NULL OR w.status = %(status)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.dead_lettered_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.dead_lettered_at < %(until)s) AS is_match
    FROM (SELECT manifest_id, id, owner, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                 manifest_group_id, input
          FROM gandy.dead_letter
          WHERE manifest_id >= (SELECT id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = %(manifest)s)
            AND (manifest_id, id) < ((SELECT id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = %(manifest)s), %(before)s)
          ORDER BY manifest_id DESC, id DESC LIMIT %(searched)s) w) r
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.manifest_id DESC, r.id DESC LIMIT %(limit)s;

-- name: search_awaiting_letters_of_train
-- Awaiting letters of one train, by their own index: bounds and order are written so that no other index can serve.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.owner DESC, w.train_name DESC, w.id DESC) AS place, true
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.dead_lettered_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.dead_lettered_at < %(until)s) AS is_match
    FROM (SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                 manifest_group_id, input
          FROM gandy.dead_letter
          WHERE status = 'awaiting_intervention' AND (owner, train_name) >= (%(owner)s, %(train)s)
            AND (owner, train_name, id) < (%(owner)s, %(train)s, %(before)s)
          ORDER BY owner DESC, train_name DESC, id DESC LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.owner DESC, r.train_name DESC, r.id DESC LIMIT %(limit)s;

-- name: search_letters_by_resolution
-- Resolved letters of all owners or of one, the latest resolution first, each by an index.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.resolved_at DESC, w.id DESC) AS place,
           (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND w.status = %(status)s
           AND (%(manifest)s::text IS NULL OR w.manifest_id = (SELECT id FROM gandy.manifest
                              WHERE owner = %(owner)s AND external_id = %(manifest)s))
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.dead_lettered_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.dead_lettered_at < %(until)s) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                   manifest_group_id, input
            FROM gandy.dead_letter
            WHERE %(owner)s::text IS NULL AND status <> 'awaiting_intervention' AND resolved_at <= %(last)s
              AND (resolved_at, id) < (%(last)s, %(before)s)
            ORDER BY resolved_at DESC, id DESC LIMIT %(searched)s) a
        UNION ALL
        SELECT * FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                   manifest_group_id, input
            FROM gandy.dead_letter
            WHERE status <> 'awaiting_intervention' AND owner >= %(owner)s
              AND (owner, resolved_at, id) < (%(owner)s, %(last)s, %(before)s)
            ORDER BY owner DESC, resolved_at DESC, id DESC LIMIT %(searched)s) o) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.resolved_at DESC, r.id DESC LIMIT %(limit)s;

-- name: list_letters_of_runs
-- The dead letters that runs left, that runs were requeued from, and these letters.
SELECT l.id, l.owner, m.external_id AS manifest, l.train_name AS train, l.metadata_id AS run_id, l.attempt, l.status, l.reason,
       l.dead_lettered_at, l.resolved_at, l.resolved_by
FROM (SELECT id FROM gandy.dead_letter WHERE metadata_id = ANY(%(runs)s::bigint[])
      UNION
      SELECT id FROM gandy.dead_letter WHERE retry_metadata_id = ANY(%(runs)s::bigint[])
      UNION
      SELECT id FROM gandy.dead_letter WHERE id = ANY(%(letters)s::bigint[])) f
JOIN gandy.dead_letter l ON l.id = f.id
LEFT JOIN gandy.manifest m ON m.id = l.manifest_id
WHERE (%(owner)s::text IS NULL OR l.owner = %(owner)s)
ORDER BY l.id LIMIT %(limit)s;
