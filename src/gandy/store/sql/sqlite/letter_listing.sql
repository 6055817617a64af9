-- name: search_letters_of_manifest
-- By the manifest's own index.
SELECT r.id, r.owner, :manifest AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner IS NULL OR w.owner = :owner) AND (:train IS NULL OR w.train_name = :train)
           AND (:status IS NULL OR w.status = :status) AS is_match
    FROM (SELECT manifest_id, id, owner, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by
          FROM dead_letter
          WHERE manifest_id = (SELECT id FROM manifest WHERE owner = :owner AND external_id = :manifest) AND id < :before
          ORDER BY id DESC LIMIT :searched) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: search_awaiting_letters_of_train
-- Awaiting letters of one train, by their own index.
SELECT r.id, r.owner, m.external_id AS manifest, r.train_name AS train, r.metadata_id AS run_id, r.attempt, r.status, r.reason,
       r.dead_lettered_at, r.resolved_at, r.resolved_by, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place, true AS is_match
    FROM (SELECT id, owner, manifest_id, train_name, metadata_id, attempt, status, reason, dead_lettered_at, resolved_at, resolved_by
          FROM dead_letter INDEXED BY ix_dead_letter_awaiting
          WHERE status = 'awaiting_intervention' AND owner = :owner AND train_name = :train AND id < :before
          ORDER BY id DESC LIMIT :searched) w) r
LEFT JOIN manifest m ON m.id = r.manifest_id
ORDER BY r.id DESC LIMIT :limit;

-- name: count_awaiting_like
-- Letters that await an operator, counted up to a limit; each combination of filters has its own index scan.
SELECT count(*) AS letters FROM (
    SELECT 1 FROM dead_letter l JOIN manifest m ON m.id = l.manifest_id
    WHERE m.owner = :owner AND m.external_id = :manifest AND l.status = 'awaiting_intervention'
      AND (:owner IS NULL OR l.owner = :owner) AND (:train IS NULL OR l.train_name = :train)
    UNION ALL
    SELECT 1 FROM (SELECT 1 FROM dead_letter
     WHERE status = 'awaiting_intervention' AND owner = :owner AND train_name = :train AND :manifest IS NULL LIMIT :limit)
    UNION ALL
    SELECT 1 FROM (SELECT 1 FROM dead_letter
     WHERE status = 'awaiting_intervention' AND owner = :owner AND :train IS NULL AND :manifest IS NULL LIMIT :limit)
    UNION ALL
    SELECT 1 FROM (SELECT 1 FROM dead_letter
     WHERE status = 'awaiting_intervention' AND :owner IS NULL AND :manifest IS NULL AND (:train IS NULL OR train_name = :train)
     LIMIT :limit));

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
