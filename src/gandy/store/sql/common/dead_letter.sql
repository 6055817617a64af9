-- name: count_awaiting_letters
-- Reads at most the limit, regardless of the table's size.
SELECT count(*) AS awaiting FROM (
    SELECT 1 FROM gandy.dead_letter
    WHERE owner = :owner AND train_name = :train_name AND status = 'awaiting_intervention' AND manifest_id IS NULL
    LIMIT :limit) letters;

-- name: count_all_awaiting_letters
-- Dead letters that await an operator, counted up to the limit.
SELECT count(*) AS letters FROM (
    SELECT 1 FROM gandy.dead_letter WHERE owner = :owner AND status = 'awaiting_intervention' LIMIT :limit) l;

-- name: count_letters_by_train
-- Jobs that await an operator; counted up to a limit. One of the two parts is empty: one condition for both would not be
-- searched by the index in every plan.
SELECT owner, train_name AS train, count(*) AS letters, min(dead_lettered_at) AS oldest_at FROM (
    SELECT * FROM (
        SELECT owner, train_name, dead_lettered_at FROM gandy.dead_letter
        WHERE status = 'awaiting_intervention' AND owner = :owner ORDER BY owner, train_name LIMIT :limit) of_one
    UNION ALL
    SELECT * FROM (
        SELECT owner, train_name, dead_lettered_at FROM gandy.dead_letter
        WHERE status = 'awaiting_intervention' AND :owner::text IS NULL ORDER BY owner, train_name LIMIT :limit) of_all) awaiting
GROUP BY owner, train_name ORDER BY owner, train_name;

-- name: load_letter
-- One letter, with data of its manifest.
SELECT l.id, l.owner, m.external_id AS manifest, g.name AS group_name, l.train_name AS train, l.input, l.metadata_id AS run_id,
       l.due_at, l.attempt, l.priority, l.status, l.reason, l.evidence, l.dead_lettered_at, l.resolved_at, l.resolved_by,
       l.resolution_note, l.retry_metadata_id AS retry_run_id
FROM gandy.dead_letter l LEFT JOIN gandy.manifest m ON m.id = l.manifest_id
LEFT JOIN gandy.manifest_group g ON g.id = l.manifest_group_id
WHERE l.id = :id AND (:owner::text IS NULL OR l.owner = :owner);

-- name: newest_letter
-- The end of a walk over all letters (high-water mark): a job that fails again writes a later letter.
SELECT coalesce(max(id), 0) AS id FROM gandy.dead_letter;

-- name: find_awaiting
-- The next letters that await an operator.
SELECT l.id FROM gandy.dead_letter l LEFT JOIN gandy.manifest m ON m.id = l.manifest_id
WHERE l.id > :after AND l.id <= :until AND l.status = 'awaiting_intervention'
  AND (:owner::text IS NULL OR l.owner = :owner) AND (:train::text IS NULL OR l.train_name = :train)
  AND (:manifest::text IS NULL OR m.external_id = :manifest)
  AND (:since::timestamptz IS NULL OR l.dead_lettered_at >= :since)
  AND (:older_than::timestamptz IS NULL OR l.dead_lettered_at < :older_than)
  AND (:group::text IS NULL
       OR l.manifest_group_id IN (SELECT id FROM gandy.manifest_group
                                  WHERE name = :group AND (:owner::text IS NULL OR owner = :owner)))
ORDER BY l.id LIMIT :limit;

-- name: forget_letters
-- Resolved letters outlive their manifest.
UPDATE gandy.dead_letter SET manifest_id = NULL
WHERE manifest_id = :manifest_id AND owner = :owner AND status <> 'awaiting_intervention';
