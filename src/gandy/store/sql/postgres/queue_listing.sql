-- name: search_entries
-- Newest first; ids ascend in the order of queueing.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           w.origin <> 'local' AND (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(status)s::text IS NULL OR w.status = %(status)s OR %(status)s = 'undispatched' AND w.status IN ('queued', 'waiting'))
           AND (%(gate)s::text IS NULL OR w.gate = %(gate)s AND w.status = 'queued')
           AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(manifest)s::text IS NULL OR w.manifest_id = (SELECT id FROM gandy.manifest
                              WHERE owner = %(owner)s AND external_id = %(manifest)s))
           AND (%(since)s::timestamptz IS NULL OR w.created_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.created_at < %(until)s) AS is_match
    FROM (SELECT id, owner, train_name, manifest_id, manifest_group_id, priority, status, gate, reason, error, origin, due_at,
                 due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, dead_letter_id, input
          FROM gandy.work_queue WHERE id < %(before)s ORDER BY id DESC LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.id DESC LIMIT %(limit)s;

-- name: gather_entries
-- All entries of these owners that have a status and a gate, by index, if there are few; otherwise the first row has
-- place = searched. Entries of each status have an index of their own, led by the owner.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT * FROM (SELECT w.*, w.origin <> 'local' AND w.id < %(before)s AND (%(owner)s::text IS NULL OR w.owner = %(owner)s)
           AND (%(status)s::text IS NULL OR w.status = %(status)s OR %(status)s = 'undispatched' AND w.status IN ('queued', 'waiting'))
           AND (%(gate)s::text IS NULL OR w.gate = %(gate)s AND w.status = 'queued') AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(manifest)s::text IS NULL OR w.manifest_id = (SELECT id FROM gandy.manifest
                              WHERE owner = %(owner)s AND external_id = %(manifest)s))
           AND (%(since)s::timestamptz IS NULL OR w.created_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.created_at < %(until)s) AS is_match
    FROM (
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE coalesce(%(status)s::text, 'queued') IN ('queued', 'undispatched') AND coalesce(%(gate)s::text, 'open') = 'open'
                  AND owner = wanted.owner AND status = 'queued' AND gate = 'open'
                ORDER BY manifest_group_id, rank DESC, id LIMIT %(searched)s) w
            LIMIT %(searched)s) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE coalesce(%(status)s::text, 'queued') IN ('queued', 'undispatched') AND coalesce(%(gate)s::text, 'time') = 'time'
                  AND owner = wanted.owner AND status = 'queued' AND gate = 'time'
                ORDER BY scheduled_at LIMIT %(searched)s) w
            LIMIT %(searched)s) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE coalesce(%(status)s::text, 'queued') IN ('queued', 'undispatched') AND coalesce(%(gate)s::text, 'train') = 'train'
                  AND owner = wanted.owner AND status = 'queued' AND gate = 'train'
                ORDER BY train_name LIMIT %(searched)s) w
            LIMIT %(searched)s) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE coalesce(%(status)s::text, 'queued') IN ('queued', 'undispatched') AND coalesce(%(gate)s::text, 'manifest') = 'manifest'
                  AND owner = wanted.owner AND status = 'queued' AND gate = 'manifest'
                ORDER BY scheduled_at LIMIT %(searched)s) w
            LIMIT %(searched)s) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE %(gate)s::text IS NULL AND coalesce(%(status)s::text, 'waiting') IN ('waiting', 'undispatched')
                  AND owner = wanted.owner AND status = 'waiting'
                ORDER BY id LIMIT %(searched)s) w
            LIMIT %(searched)s) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE %(gate)s::text IS NULL AND coalesce(%(status)s::text, 'skipped') = 'skipped'
                  AND owner = wanted.owner AND status = 'skipped' AND status IN ('skipped', 'cancelled')
                ORDER BY id LIMIT %(searched)s) w
            LIMIT %(searched)s) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE %(gate)s::text IS NULL AND coalesce(%(status)s::text, 'cancelled') = 'cancelled'
                  AND owner = wanted.owner AND status = 'cancelled' AND status IN ('skipped', 'cancelled')
                ORDER BY id LIMIT %(searched)s) w
            LIMIT %(searched)s) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE %(gate)s::text IS NULL AND coalesce(%(status)s::text, 'dispatched') = 'dispatched'
                  AND owner = wanted.owner AND status = 'dispatched' AND train_state = 'in_progress'
                ORDER BY manifest_group_id LIMIT %(searched)s) w
            LIMIT %(searched)s) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM unnest(%(owners)s::text[]) AS wanted(owner) CROSS JOIN LATERAL (
                SELECT * FROM gandy.work_queue
                WHERE %(gate)s::text IS NULL AND coalesce(%(status)s::text, 'dispatched') = 'dispatched'
                  AND owner = wanted.owner AND status = 'dispatched' AND train_state = 'pending'
                ORDER BY manifest_group_id LIMIT %(searched)s) w
            LIMIT %(searched)s) e) w) f
    WHERE is_match OR place = %(searched)s
    ORDER BY place = %(searched)s DESC, id DESC LIMIT %(limit)s) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
ORDER BY r.place = %(searched)s DESC, r.id DESC;

-- name: gather_entries_of_manifest
-- All entries of a manifest, by its occurrences, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER () AS place,
           w.id < %(before)s AND w.origin <> 'local' AND (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(status)s::text IS NULL OR w.status = %(status)s OR %(status)s = 'undispatched' AND w.status IN ('queued', 'waiting'))
           AND (%(gate)s::text IS NULL OR w.gate = %(gate)s AND w.status = 'queued')
           AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(manifest)s::text IS NULL OR w.manifest_id = (SELECT id FROM gandy.manifest
                              WHERE owner = %(owner)s AND external_id = %(manifest)s))
           AND (%(since)s::timestamptz IS NULL OR w.created_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.created_at < %(until)s) AS is_match
    FROM (SELECT id, owner, train_name, manifest_id, manifest_group_id, priority, status, gate, reason, error, origin, due_at,
                 due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, dead_letter_id, input
          FROM gandy.work_queue
          WHERE manifest_id = (SELECT id FROM gandy.manifest WHERE owner = %(owner)s AND external_id = %(manifest)s)
          ORDER BY manifest_id DESC, due_at DESC, attempt DESC LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.place = %(searched)s DESC, r.id DESC LIMIT %(limit)s;

-- name: search_entries_by_time
-- Entries of one application whose time has not come, the soonest first, by the index of their times.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.scheduled_at, w.id) AS place,
           (%(owner)s::text IS NULL OR w.owner = %(owner)s) AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(manifest)s::text IS NULL OR w.manifest_id = (SELECT id FROM gandy.manifest
                              WHERE owner = %(owner)s AND external_id = %(manifest)s))
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(since)s::timestamptz IS NULL OR w.created_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.created_at < %(until)s) AS is_match
    FROM (SELECT id, owner, train_name, manifest_id, manifest_group_id, priority, status, gate, reason, error, origin, due_at,
                 due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, dead_letter_id, input
          FROM gandy.work_queue
          WHERE owner = %(owner)s AND status = 'queued' AND gate = 'time' AND scheduled_at >= %(last)s AND (scheduled_at, id) > (%(last)s, %(beyond)s)
          ORDER BY scheduled_at, id LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.scheduled_at, r.id LIMIT %(limit)s;
