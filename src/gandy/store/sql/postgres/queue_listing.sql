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

-- name: gather_queued_entries
-- All queued and waiting entries, by index, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, s.place, s.is_match
FROM (
    SELECT w.*, w.id < %(before)s AND (%(owner)s::text IS NULL OR w.owner = %(owner)s)
           AND (%(gate)s::text IS NULL OR w.gate = %(gate)s) AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
           AND (%(group)s::text IS NULL
                OR w.manifest_group_id = ANY (ARRAY(SELECT id FROM gandy.manifest_group
                              WHERE name = %(group)s AND (%(owner)s::text IS NULL OR owner = %(owner)s))))
           AND (%(manifest)s::text IS NULL OR w.manifest_id = (SELECT id FROM gandy.manifest
                              WHERE owner = %(owner)s AND external_id = %(manifest)s))
           AND (%(since)s::timestamptz IS NULL OR w.created_at >= %(since)s)
           AND (%(until)s::timestamptz IS NULL OR w.created_at < %(until)s) AS is_match
    FROM (
        SELECT o.*, row_number() OVER () AS place FROM (
            SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM gandy.work_queue
            WHERE coalesce(%(status)s::text, 'queued') <> 'waiting' AND status = 'queued' AND gate = 'open' AND coalesce(%(gate)s::text, 'open') = 'open'
            ORDER BY owner, manifest_group_id, rank DESC, id LIMIT %(searched)s) o
        UNION ALL
        SELECT t.*, row_number() OVER () FROM (
            SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM gandy.work_queue
            WHERE coalesce(%(status)s::text, 'queued') <> 'waiting' AND status = 'queued' AND gate = 'time' AND coalesce(%(gate)s::text, 'time') = 'time'
            ORDER BY owner, scheduled_at LIMIT %(searched)s) t
        UNION ALL
        SELECT u.*, row_number() OVER () FROM (
            SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM gandy.work_queue
            WHERE coalesce(%(status)s::text, 'queued') <> 'waiting' AND status = 'queued' AND gate = 'train' AND coalesce(%(gate)s::text, 'train') = 'train'
            ORDER BY owner, train_name LIMIT %(searched)s) u
        UNION ALL
        SELECT h.* FROM (
            SELECT b.*, row_number() OVER () AS place FROM (
                SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM gandy.work_queue
                WHERE coalesce(%(status)s::text, 'queued') <> 'waiting' AND status = 'queued' AND manifest_id IS NOT NULL AND coalesce(%(gate)s::text, 'manifest') = 'manifest'
                ORDER BY manifest_id LIMIT %(searched)s) b) h
        WHERE h.gate = 'manifest' OR h.place = %(searched)s
        UNION ALL
        SELECT v.*, row_number() OVER () FROM (
            SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM gandy.work_queue
            WHERE status = 'waiting' AND %(status)s IN ('waiting', 'undispatched') AND %(gate)s::text IS NULL
            ORDER BY manifest_id, id LIMIT %(searched)s) v) w
    ORDER BY place = %(searched)s DESC, id DESC) s
JOIN gandy.work_queue r ON r.id = s.id
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE s.is_match OR s.place = %(searched)s
ORDER BY s.place = %(searched)s DESC, s.id DESC LIMIT %(limit)s;

-- name: gather_settled_entries
-- All skipped and cancelled entries, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN %(with_input)s::boolean AND pg_column_size(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER () AS place,
           w.id < %(before)s AND (%(owner)s::text IS NULL OR w.owner = %(owner)s)
           AND (%(gate)s::text IS NULL) AND (%(train)s::text IS NULL OR w.train_name = %(train)s)
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
          WHERE status IN ('skipped', 'cancelled') AND status = %(status)s
          ORDER BY coalesce(settled_at, created_at) DESC, id DESC LIMIT %(searched)s) w) r
LEFT JOIN gandy.manifest m ON m.id = r.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = %(searched)s
ORDER BY r.place = %(searched)s DESC, r.id DESC LIMIT %(limit)s;

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
