-- name: search_entries
-- Newest first; ids ascend in the order of queueing.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           w.origin <> 'local' AND (:owner IS NULL OR w.owner = :owner) AND (:status IS NULL OR w.status = :status OR :status = 'undispatched' AND w.status IN ('queued', 'waiting'))
           AND (:gate IS NULL OR w.gate = :gate AND w.status = 'queued')
           AND (:train IS NULL OR w.train_name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:manifest IS NULL OR w.manifest_id = (SELECT id FROM manifest
                              WHERE owner = :owner AND external_id = :manifest))
           AND (:since IS NULL OR w.created_at >= :since)
           AND (:until IS NULL OR w.created_at < :until) AS is_match
    FROM (SELECT id, owner, train_name, manifest_id, manifest_group_id, priority, status, gate, reason, error, origin, due_at,
                 due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, dead_letter_id, input
          FROM work_queue WHERE id < :before ORDER BY id DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
LEFT JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: gather_queued_entries
-- All queued and waiting entries, by index, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, s.place, s.is_match
FROM (
    SELECT w.*, w.id < :before AND (:owner IS NULL OR w.owner = :owner)
           AND (:gate IS NULL OR w.gate = :gate) AND (:train IS NULL OR w.train_name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:manifest IS NULL OR w.manifest_id = (SELECT id FROM manifest
                              WHERE owner = :owner AND external_id = :manifest))
           AND (:since IS NULL OR w.created_at >= :since)
           AND (:until IS NULL OR w.created_at < :until) AS is_match
    FROM (
        SELECT o.*, row_number() OVER () AS place FROM (
            SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM work_queue
            WHERE coalesce(:status, 'queued') <> 'waiting' AND status = 'queued' AND gate = 'open' AND coalesce(:gate, 'open') = 'open'
            ORDER BY owner, manifest_group_id, rank DESC, id LIMIT :searched) o
        UNION ALL
        SELECT t.*, row_number() OVER () FROM (
            SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM work_queue
            WHERE coalesce(:status, 'queued') <> 'waiting' AND status = 'queued' AND gate = 'time' AND coalesce(:gate, 'time') = 'time'
            ORDER BY owner, scheduled_at LIMIT :searched) t
        UNION ALL
        SELECT u.*, row_number() OVER () FROM (
            SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM work_queue
            WHERE coalesce(:status, 'queued') <> 'waiting' AND status = 'queued' AND gate = 'train' AND coalesce(:gate, 'train') = 'train'
            ORDER BY owner, train_name LIMIT :searched) u
        UNION ALL
        SELECT h.* FROM (
            SELECT b.*, row_number() OVER () AS place FROM (
                SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM work_queue
                WHERE coalesce(:status, 'queued') <> 'waiting' AND status = 'queued' AND manifest_id IS NOT NULL AND coalesce(:gate, 'manifest') = 'manifest'
                ORDER BY manifest_id LIMIT :searched) b) h
        WHERE h.gate = 'manifest' OR h.place = :searched
        UNION ALL
        SELECT v.*, row_number() OVER () FROM (
            SELECT id, owner, gate, train_name, manifest_group_id, manifest_id, created_at FROM work_queue
            WHERE status = 'waiting' AND :status IN ('waiting', 'undispatched') AND :gate IS NULL
            ORDER BY manifest_id, id LIMIT :searched) v) w
    ORDER BY place = :searched DESC, id DESC) s
JOIN work_queue r ON r.id = s.id
LEFT JOIN manifest m ON m.id = r.manifest_id
LEFT JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE s.is_match OR s.place = :searched
ORDER BY s.place = :searched DESC, s.id DESC LIMIT :limit;

-- name: gather_settled_entries
-- All skipped and cancelled entries, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER () AS place,
           w.id < :before AND (:owner IS NULL OR w.owner = :owner)
           AND (:gate IS NULL) AND (:train IS NULL OR w.train_name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:manifest IS NULL OR w.manifest_id = (SELECT id FROM manifest
                              WHERE owner = :owner AND external_id = :manifest))
           AND (:since IS NULL OR w.created_at >= :since)
           AND (:until IS NULL OR w.created_at < :until) AS is_match
    FROM (SELECT id, owner, train_name, manifest_id, manifest_group_id, priority, status, gate, reason, error, origin, due_at,
                 due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, dead_letter_id, input
          FROM work_queue
          WHERE status IN ('skipped', 'cancelled') AND status = :status
          ORDER BY coalesce(settled_at, created_at) DESC, id DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
LEFT JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.place = :searched DESC, r.id DESC LIMIT :limit;

-- name: gather_entries_of_manifest
-- All entries of a manifest, by its occurrences, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER () AS place,
           w.id < :before AND w.origin <> 'local' AND (:owner IS NULL OR w.owner = :owner) AND (:status IS NULL OR w.status = :status OR :status = 'undispatched' AND w.status IN ('queued', 'waiting'))
           AND (:gate IS NULL OR w.gate = :gate AND w.status = 'queued')
           AND (:train IS NULL OR w.train_name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:manifest IS NULL OR w.manifest_id = (SELECT id FROM manifest
                              WHERE owner = :owner AND external_id = :manifest))
           AND (:since IS NULL OR w.created_at >= :since)
           AND (:until IS NULL OR w.created_at < :until) AS is_match
    FROM (SELECT id, owner, train_name, manifest_id, manifest_group_id, priority, status, gate, reason, error, origin, due_at,
                 due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, dead_letter_id, input
          FROM work_queue
          WHERE manifest_id = (SELECT id FROM manifest WHERE owner = :owner AND external_id = :manifest)
          ORDER BY manifest_id DESC, due_at DESC, attempt DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
LEFT JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.place = :searched DESC, r.id DESC LIMIT :limit;

-- name: search_entries_by_time
-- Entries of one application whose time has not come, the soonest first, by the index of their times.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.scheduled_at, w.id) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.train_name = :train)
           AND (:manifest IS NULL OR w.manifest_id = (SELECT id FROM manifest
                              WHERE owner = :owner AND external_id = :manifest))
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.created_at >= :since)
           AND (:until IS NULL OR w.created_at < :until) AS is_match
    FROM (SELECT id, owner, train_name, manifest_id, manifest_group_id, priority, status, gate, reason, error, origin, due_at,
                 due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, dead_letter_id, input
          FROM work_queue INDEXED BY ix_work_queue_future
          WHERE owner = :owner AND status = 'queued' AND gate = 'time' AND scheduled_at >= :last AND (scheduled_at, id) > (:last, :beyond)
          ORDER BY scheduled_at, id LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
LEFT JOIN manifest_group g ON g.id = r.manifest_group_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.scheduled_at, r.id LIMIT :limit;
