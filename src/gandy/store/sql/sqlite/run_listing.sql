-- name: search_runs
-- Newest first; ids ascend in the order of creation. The walk is bounded: a last row with place = searched marks the limit.
-- Live runs, which are few, are read by their index, those of other applications not at all. The walk takes few columns of each row
-- and the page reads the rest by id: SQLite keeps all rows of a walk to number them.
WITH live AS MATERIALIZED (
    SELECT id, owner, train_name AS name, train_state, manifest_group_id, start_time, true AS is_live
    FROM work_queue INDEXED BY ix_work_queue_live_run
    WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND (:owner IS NULL OR owner = :owner)
)
SELECT f.id, coalesce(h.owner, q.owner) AS owner, coalesce(h.name, q.train_name) AS train, f.train_state AS state,
       m.external_id AS manifest, coalesce(h.attempt, q.attempt) AS attempt, coalesce(h.due_at, q.due_at) AS due_at, f.start_time,
       h.end_time, h.failure_exception, h.failure_reason,
       CASE WHEN :with_input AND length(coalesce(h.input, q.input)) <= 16384 THEN coalesce(h.input, q.input) END AS input,
       f.place, f.is_match
FROM (
    SELECT w.id, w.train_state, w.start_time, w.is_live, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.name = :train)
           AND (:state IS NULL OR w.train_state = :state)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.start_time >= :since)
           AND (:until IS NULL OR w.start_time < :until) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, name, train_state, manifest_group_id, start_time, false AS is_live
            FROM history WHERE id < :before ORDER BY id DESC LIMIT :searched) h
        UNION ALL
        SELECT * FROM (
            SELECT * FROM live WHERE id < :before ORDER BY id DESC LIMIT :searched) q
        ORDER BY id DESC LIMIT :searched) w) f
LEFT JOIN history h ON h.id = f.id AND NOT f.is_live
LEFT JOIN work_queue q ON q.id = f.id AND f.is_live
LEFT JOIN manifest m ON m.id = coalesce(h.manifest_id, q.manifest_id)
WHERE f.is_match OR f.place = :searched
ORDER BY f.id DESC LIMIT :limit;

-- name: search_live_runs
-- Unfinished runs have an index of their own in the queue.
SELECT r.id, r.owner, r.train_name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, NULL AS end_time, NULL AS failure_exception, NULL AS failure_reason,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:train IS NULL OR w.train_name = :train)
           AND (:state IS NULL OR w.train_state = :state)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.start_time >= :since)
           AND (:until IS NULL OR w.start_time < :until) AS is_match
    FROM (SELECT id, owner, train_name, train_state, manifest_id, attempt, due_at, start_time, manifest_group_id, input
          FROM work_queue INDEXED BY ix_work_queue_live_run
          WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND (:owner IS NULL OR owner = :owner)
            AND +id < :before ORDER BY id DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: search_unsuccessful_runs
-- Failed and cancelled runs of all owners or of one, each by an index.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.name = :train)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.start_time >= :since)
           AND (:until IS NULL OR w.start_time < :until) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                     manifest_group_id, input
            FROM history INDEXED BY ix_history_unsuccessful
            WHERE :owner IS NULL AND train_state <> 'completed' AND train_state = :state AND id < :before
            ORDER BY id DESC LIMIT :searched) a
        UNION ALL
        SELECT * FROM (
            SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                     manifest_group_id, input
            FROM history INDEXED BY ix_history_unsuccessful_owner
            WHERE owner = :owner AND train_state <> 'completed' AND train_state = :state AND id < :before
            ORDER BY id DESC LIMIT :searched) o) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: search_runs_of_manifest
-- Its history by index, and its live run, if any, by the manifest's active_run_id.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, :manifest AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.name = :train)
           AND (:state IS NULL OR w.train_state = :state)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.start_time >= :since)
           AND (:until IS NULL OR w.start_time < :until) AS is_match
    FROM (
        SELECT h.*, row_number() OVER (ORDER BY h.id DESC) AS place
        FROM (SELECT id, owner, name, train_state, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                     manifest_group_id, input
              FROM history INDEXED BY ix_history_manifest
              WHERE manifest_id = (SELECT id FROM manifest WHERE owner = :owner AND external_id = :manifest) AND id < :before
              ORDER BY id DESC LIMIT :searched) h
        UNION ALL
        SELECT id, owner, train_name, train_state, attempt, due_at, start_time, NULL, NULL, NULL,
               manifest_group_id, input, 0 FROM work_queue
        WHERE id = (SELECT active_run_id FROM manifest WHERE owner = :owner AND external_id = :manifest)
          AND train_state IS NOT NULL AND id < :before) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: gather_runs
-- All runs of these owners, or of one of their trains, if there are few; otherwise the first row has place = searched.
-- Live runs have no index by train.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.name = :train)
           AND (:state IS NULL OR w.train_state = :state) AND w.id < :before
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.start_time >= :since)
           AND (:until IS NULL OR w.start_time < :until) AS is_match
    FROM (
        SELECT h.*, row_number() OVER () AS place
        FROM (
            SELECT * FROM (
                SELECT h.id, h.owner, h.name, h.train_state, h.manifest_id, h.attempt, h.due_at, h.start_time, h.end_time,
                       h.failure_exception, h.failure_reason, h.manifest_group_id, h.input
                FROM json_each(:owners) AS wanted CROSS JOIN history h INDEXED BY ix_history_name
                WHERE :train IS NULL AND h.owner = wanted.value LIMIT :searched)
            UNION ALL
            SELECT * FROM (
                SELECT h.id, h.owner, h.name, h.train_state, h.manifest_id, h.attempt, h.due_at, h.start_time, h.end_time,
                       h.failure_exception, h.failure_reason, h.manifest_group_id, h.input
                FROM json_each(:owners) AS wanted CROSS JOIN history h INDEXED BY ix_history_name
                WHERE h.owner = wanted.value AND h.name = :train AND h.start_time >= coalesce(:since, '')
                  AND h.start_time < coalesce(:until, '~') LIMIT :searched)) h
        UNION ALL
        SELECT l.*, CASE WHEN row_number() OVER () = 4 * :searched THEN :searched ELSE 0 END
        FROM (SELECT id, owner, train_name, train_state, manifest_id, attempt, due_at, start_time, NULL, NULL, NULL, manifest_group_id, input
              FROM work_queue INDEXED BY ix_work_queue_live_run
              WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress')
                AND owner IN (SELECT value FROM json_each(:owners)) AND +id < :before
              ORDER BY id DESC LIMIT 4 * :searched) l) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.place = :searched DESC, r.id DESC LIMIT :limit;

-- name: search_runs_by_start
-- The runs of one train of one owner, the latest start first, by the index of owners, trains and starts.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.start_time DESC, w.id DESC) AS place,
           (:state IS NULL OR w.train_state = :state)
           AND (:manifest IS NULL OR w.manifest_id = (SELECT id FROM manifest
                              WHERE owner = :owner AND external_id = :manifest))
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.start_time >= :since)
           AND (:until IS NULL OR w.start_time < :until) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason,
                   manifest_group_id, input
            FROM history INDEXED BY ix_history_name
            WHERE owner = :owner AND name = :train AND start_time >= coalesce(:since, '')
              AND start_time < coalesce(:until, '~') AND start_time <= :last AND (start_time, id) < (:last, :before)
            ORDER BY start_time DESC, id DESC LIMIT :searched) h
        UNION ALL
        SELECT * FROM (
            SELECT id, owner, train_name, train_state, manifest_id, attempt, due_at, start_time, NULL, NULL, NULL,
                   manifest_group_id, input
            FROM work_queue INDEXED BY ix_work_queue_live_run
            WHERE status = 'dispatched' AND train_state IN ('pending', 'in_progress') AND owner = :owner
              AND train_name = :train AND (start_time, id) < (:last, :before)
            ORDER BY start_time DESC, id DESC LIMIT :searched) q
        ORDER BY start_time DESC, id DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.start_time DESC, r.id DESC LIMIT :limit;
