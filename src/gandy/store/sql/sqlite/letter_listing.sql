-- name: search_letters
-- Newest first, of all owners or of one; ids ascend in the order of writing.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.train_name = :train)
           AND (:status IS NULL OR w.status = :status)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.dead_lettered_at >= :since)
           AND (:until IS NULL OR w.dead_lettered_at < :until) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                   manifest_group_id, input
            FROM dead_letter WHERE :owner IS NULL AND id < :before ORDER BY id DESC LIMIT :searched) a
        UNION ALL
        SELECT * FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                   manifest_group_id, input
            FROM dead_letter INDEXED BY ix_dead_letter_owner WHERE owner = :owner AND id < :before ORDER BY id DESC LIMIT :searched) o) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: gather_letters
-- All awaiting letters of these owners, or all resolved ones, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, w.id < :before AND (:owner IS NULL OR w.owner = :owner)
           AND (:train IS NULL OR w.train_name = :train) AND w.status = :status
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.dead_lettered_at >= :since)
           AND (:until IS NULL OR w.dead_lettered_at < :until) AS is_match
    FROM (
        SELECT a.*, row_number() OVER () AS place FROM (
            SELECT l.id, l.owner, l.manifest_id, l.train_name, l.metadata_id, l.attempt, l.status, l.reason, l.dead_lettered_at,
                   l.resolved_at, l.resolved_by, l.manifest_group_id, l.input
            FROM json_each(:owners) AS wanted CROSS JOIN dead_letter l INDEXED BY ix_dead_letter_awaiting
            WHERE l.status = 'awaiting_intervention' AND :status = 'awaiting_intervention' AND l.owner = wanted.value
            LIMIT :searched) a
        UNION ALL
        SELECT d.*, row_number() OVER () FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                 manifest_group_id, input
            FROM dead_letter
            WHERE status <> 'awaiting_intervention' AND :status <> 'awaiting_intervention'
            ORDER BY resolved_at DESC, id DESC LIMIT :searched) d) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.place = :searched DESC, r.id DESC LIMIT :limit;

-- name: search_letters_of_manifest
-- By the manifest's own index.
SELECT r.id, r.owner, :manifest AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.train_name = :train)
           AND (:status IS NULL OR w.status = :status)
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.dead_lettered_at >= :since)
           AND (:until IS NULL OR w.dead_lettered_at < :until) AS is_match
    FROM (SELECT manifest_id, id, owner, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                 manifest_group_id, input
          FROM dead_letter
          WHERE manifest_id = (SELECT id FROM manifest WHERE owner = :owner AND external_id = :manifest) AND id < :before
          ORDER BY id DESC LIMIT :searched) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: search_awaiting_letters_of_train
-- Awaiting letters of one train, by their own index.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place, true
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.dead_lettered_at >= :since)
           AND (:until IS NULL OR w.dead_lettered_at < :until) AS is_match
    FROM (SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                 manifest_group_id, input
          FROM dead_letter INDEXED BY ix_dead_letter_awaiting
          WHERE status = 'awaiting_intervention' AND owner = :owner AND train_name = :train AND id < :before
          ORDER BY id DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: search_letters_by_resolution
-- Resolved letters of all owners or of one, the latest resolution first, each by an index.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by,
       CASE WHEN :with_input AND length(r.input) <= 16384 THEN r.input END AS input, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.resolved_at DESC, w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.train_name = :train)
           AND w.status = :status
           AND (:manifest IS NULL OR w.manifest_id = (SELECT id FROM manifest
                              WHERE owner = :owner AND external_id = :manifest))
           AND (:group IS NULL
                OR w.manifest_group_id IN (SELECT id FROM manifest_group
                              WHERE name = :group AND (:owner IS NULL OR owner = :owner)))
           AND (:since IS NULL OR w.dead_lettered_at >= :since)
           AND (:until IS NULL OR w.dead_lettered_at < :until) AS is_match
    FROM (
        SELECT * FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                   manifest_group_id, input
            FROM dead_letter INDEXED BY ix_dead_letter_resolved
            WHERE :owner IS NULL AND status <> 'awaiting_intervention' AND resolved_at <= :last AND (resolved_at, id) < (:last, :before)
            ORDER BY resolved_at DESC, id DESC LIMIT :searched) a
        UNION ALL
        SELECT * FROM (
            SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by,
                   manifest_group_id, input
            FROM dead_letter INDEXED BY ix_dead_letter_resolved_owner
            WHERE owner = :owner AND status <> 'awaiting_intervention' AND resolved_at <= :last AND (resolved_at, id) < (:last, :before)
            ORDER BY resolved_at DESC, id DESC LIMIT :searched) o) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
WHERE r.is_match OR r.place = :searched
ORDER BY r.resolved_at DESC, r.id DESC LIMIT :limit;

-- name: list_letters_of_runs
-- The dead letters that runs left, that runs were requeued from, and these letters.
SELECT l.id, l.owner, m.external_id AS manifest, l.train_name AS train, l.metadata_id AS run_id, l.attempt, l.status, l.reason,
       l.dead_lettered_at, l.resolved_at, l.resolved_by
FROM (SELECT id FROM dead_letter WHERE metadata_id IN (SELECT value FROM json_each(:runs))
      UNION
      SELECT id FROM dead_letter WHERE retry_metadata_id IN (SELECT value FROM json_each(:runs))
      UNION
      SELECT id FROM dead_letter WHERE id IN (SELECT value FROM json_each(:letters))) f
JOIN dead_letter l ON l.id = f.id
LEFT JOIN manifest m ON m.id = l.manifest_id
WHERE (:owner IS NULL OR l.owner = :owner)
ORDER BY l.id LIMIT :limit;
