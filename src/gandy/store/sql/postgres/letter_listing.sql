-- name: search_letters_of_manifest
-- By the manifest's own index: bounds and order are written so that no other index can serve.
SELECT r.id, r.owner, %(manifest)s::text AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.manifest_id DESC, w.id DESC) AS place,
           (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(status)s::text IS NULL OR w.status = %(status)s) AS is_match
    FROM (SELECT manifest_id, id, owner, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by
          FROM gandy.dead_letter
          WHERE manifest_id >= (SELECT id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = %(manifest)s)
            AND (manifest_id, id) < ((SELECT id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = %(manifest)s), %(before)s)
          ORDER BY manifest_id DESC, id DESC LIMIT %(searched)s) w) r
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.manifest_id DESC, r.id DESC LIMIT %(limit)s;

-- name: search_awaiting_letters_of_train
-- Awaiting letters of one train, by their own index: bounds and order are written so that no other index can serve.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.owner DESC, w.train_name DESC, w.id DESC) AS place, true AS is_match
    FROM (SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by
          FROM gandy.dead_letter
          WHERE status = 'awaiting_intervention' AND (owner, train_name) >= (%(owner)s, %(train)s)
            AND (owner, train_name, id) < (%(owner)s, %(train)s, %(before)s)
          ORDER BY owner DESC, train_name DESC, id DESC LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
ORDER BY r.owner DESC, r.train_name DESC, r.id DESC LIMIT %(limit)s;

-- name: count_awaiting_like
-- Letters that await an operator, counted up to a limit; each combination of filters has its own index scan.
SELECT count(*) AS letters FROM (
    (SELECT 1 FROM gandy.dead_letter l JOIN gandy.manifest m ON m.id = l.manifest_id
     WHERE m.owner = %(owner)s AND m.external_id = %(manifest)s AND l.status = 'awaiting_intervention'
       AND (%(owner)s::text IS NULL OR l.owner = %(owner)s) AND (%(train)s::text IS NULL OR l.train_name = %(train)s))
    UNION ALL
    (SELECT 1 FROM gandy.dead_letter
     WHERE status = 'awaiting_intervention' AND owner = %(owner)s AND train_name = %(train)s AND %(manifest)s::text IS NULL
     LIMIT %(limit)s)
    UNION ALL
    (SELECT 1 FROM gandy.dead_letter
     WHERE status = 'awaiting_intervention' AND owner = %(owner)s AND %(train)s::text IS NULL AND %(manifest)s::text IS NULL
     LIMIT %(limit)s)
    UNION ALL
    (SELECT 1 FROM gandy.dead_letter
     WHERE status = 'awaiting_intervention' AND %(owner)s::text IS NULL AND %(manifest)s::text IS NULL
       AND (%(train)s::text IS NULL OR train_name = %(train)s)
     ORDER BY owner, train_name, id LIMIT %(limit)s)) l;

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
