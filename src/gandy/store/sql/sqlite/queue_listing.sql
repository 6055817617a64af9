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

-- name: gather_entries
-- All entries of these owners that have a status and a gate, by index, if there are few; otherwise the first row has
-- place = searched. Entries of each status have an index of their own, led by the owner.
SELECT r.id, r.owner, r.train_name AS train, m.external_id AS manifest, g.name AS group_name, r.priority, r.status, r.gate,
       r.reason, r.error, r.origin, r.due_at, r.due_until, r.occurrences, r.attempt, r.scheduled_at, r.created_at,
       r.dispatched_at, r.dead_letter_id,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT * FROM (SELECT w.*, w.origin <> 'local' AND w.id < :before AND (:owner IS NULL OR w.owner = :owner)
           AND (:status IS NULL OR w.status = :status OR :status = 'undispatched' AND w.status IN ('queued', 'waiting'))
           AND (:gate IS NULL OR w.gate = :gate AND w.status = 'queued') AND (:train IS NULL OR w.train_name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:manifest IS NULL OR w.manifest_id = (SELECT id FROM manifest
                              WHERE owner = :owner AND external_id = :manifest))
           AND (:since IS NULL OR w.created_at >= :since)
           AND (:until IS NULL OR w.created_at < :until) AS is_match
    FROM (
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_ready
            WHERE coalesce(:status, 'queued') IN ('queued', 'undispatched') AND coalesce(:gate, 'open') = 'open'
              AND w.owner = wanted.value AND w.status = 'queued' AND w.gate = 'open' LIMIT :searched) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_future
            WHERE coalesce(:status, 'queued') IN ('queued', 'undispatched') AND coalesce(:gate, 'time') = 'time'
              AND w.owner = wanted.value AND w.status = 'queued' AND w.gate = 'time' LIMIT :searched) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_unknown_train
            WHERE coalesce(:status, 'queued') IN ('queued', 'undispatched') AND coalesce(:gate, 'train') = 'train'
              AND w.owner = wanted.value AND w.status = 'queued' AND w.gate = 'train' LIMIT :searched) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_held
            WHERE coalesce(:status, 'queued') IN ('queued', 'undispatched') AND coalesce(:gate, 'manifest') = 'manifest'
              AND w.owner = wanted.value AND w.status = 'queued' AND w.gate = 'manifest' LIMIT :searched) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_waiting_owner
            WHERE :gate IS NULL AND coalesce(:status, 'waiting') IN ('waiting', 'undispatched')
              AND w.owner = wanted.value AND w.status = 'waiting' LIMIT :searched) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_settled_owner
            WHERE :gate IS NULL AND coalesce(:status, 'skipped') = 'skipped'
              AND w.owner = wanted.value AND w.status = 'skipped' AND w.status IN ('skipped', 'cancelled') LIMIT :searched) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_settled_owner
            WHERE :gate IS NULL AND coalesce(:status, 'cancelled') = 'cancelled'
              AND w.owner = wanted.value AND w.status = 'cancelled' AND w.status IN ('skipped', 'cancelled') LIMIT :searched) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_live_run
            WHERE :gate IS NULL AND coalesce(:status, 'dispatched') = 'dispatched'
              AND w.owner = wanted.value AND w.status = 'dispatched' AND w.train_state = 'in_progress' LIMIT :searched) e
        UNION ALL
        SELECT e.*, row_number() OVER () AS place FROM (
            SELECT w.* FROM json_each(:owners) AS wanted CROSS JOIN work_queue w INDEXED BY ix_work_queue_live_run
            WHERE :gate IS NULL AND coalesce(:status, 'dispatched') = 'dispatched'
              AND w.owner = wanted.value AND w.status = 'dispatched' AND w.train_state = 'pending' LIMIT :searched) e) w) f
    WHERE is_match OR place = :searched
    ORDER BY place = :searched DESC, id DESC LIMIT :limit) r
LEFT JOIN manifest m ON m.id = r.manifest_id
LEFT JOIN manifest_group g ON g.id = r.manifest_group_id
ORDER BY r.place = :searched DESC, r.id DESC;

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
