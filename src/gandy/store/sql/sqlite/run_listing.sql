-- name: search_live_runs
-- Unfinished runs share the index of runs that are not completed.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.name = :train) AS is_match
    FROM (SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason
          FROM metadata INDEXED BY ix_metadata_unsuccessful
          WHERE train_state <> 'completed' AND train_state = :state AND id < :before
          ORDER BY id DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: search_unsuccessful_runs
-- Failed and cancelled runs, by their own index.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.name = :train) AS is_match
    FROM (SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason
          FROM metadata INDEXED BY ix_metadata_unsuccessful
          WHERE train_state <> 'completed' AND train_state = :state AND id < :before
          ORDER BY id DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: search_runs_of_manifest
-- The live run is in the same index.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, :manifest AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.name = :train)
           AND (:state IS NULL OR w.train_state = :state) AS is_match
    FROM (SELECT id, owner, name, train_state, attempt, due_at, start_time, end_time, failure_exception, failure_reason
          FROM metadata INDEXED BY ix_metadata_manifest
          WHERE manifest_id = (SELECT id FROM manifest WHERE owner = :owner AND external_id = :manifest) AND id < :before
          ORDER BY id DESC LIMIT :searched) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: gather_runs_of_train
-- All runs of a train if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, r.name AS train, r.train_state AS state, m.external_id AS manifest, r.attempt, r.due_at,
       r.start_time, r.end_time, r.failure_exception, r.failure_reason, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER () AS place,
           w.id < :before AND (:owner IS NULL OR w.owner = :owner) AND (:state IS NULL OR w.train_state = :state) AS is_match
    FROM (SELECT id, owner, name, train_state, manifest_id, attempt, due_at, start_time, end_time, failure_exception, failure_reason
          FROM metadata INDEXED BY ix_metadata_name
          WHERE name = :train ORDER BY start_time DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.place = :searched DESC, r.id DESC LIMIT :limit;
