-- name: record_audit
-- In the transaction of the audited change: neither is committed without the other.
INSERT INTO gandy.audit (at, owner, actor, face, action, subject, detail)
VALUES (gandy.now(), :owner, :actor, :face, :action, :subject, :detail::json)
RETURNING id;

-- name: search_deeds
-- Newest first, of all owners.
SELECT r.id, r.at, r.owner, r.actor, r.face, r.action, r.subject, r.detail, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:owner::text IS NULL OR w.owner = :owner) AND (:actor::text IS NULL OR w.actor = :actor)
           AND (:since::timestamptz IS NULL OR w.at >= :since)
           AND (:subject::text IS NULL OR EXISTS (
               SELECT 1 FROM gandy.audit_subject s
               WHERE s.owner = w.owner AND s.subject IN (:subject, :letter) AND s.audit_id = w.id)) AS is_match
    FROM (SELECT * FROM gandy.audit WHERE id < :before ORDER BY id DESC LIMIT :searched) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: search_deeds_of_owner
-- The same for one owner, by its index: bounds and order are written so that no other index can serve.
SELECT r.id, r.at, r.owner, r.actor, r.face, r.action, r.subject, r.detail, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.owner DESC, w.id DESC) AS place,
           (:since::timestamptz IS NULL OR w.at >= :since) AS is_match
    FROM (SELECT * FROM gandy.audit WHERE owner >= :owner AND (owner, id) < (:owner, :before)
          ORDER BY owner DESC, id DESC LIMIT :searched) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.owner DESC, r.id DESC LIMIT :limit;

-- name: search_deeds_by
-- The deeds of one operator.
SELECT r.id, r.at, r.owner, r.actor, r.face, r.action, r.subject, r.detail, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.owner DESC, w.actor DESC, w.id DESC) AS place,
           (:since::timestamptz IS NULL OR w.at >= :since) AS is_match
    FROM (SELECT * FROM gandy.audit
          WHERE (owner, actor) >= (:owner, :actor) AND (owner, actor, id) < (:owner, :actor, :before)
          ORDER BY owner DESC, actor DESC, id DESC LIMIT :searched) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.owner DESC, r.actor DESC, r.id DESC LIMIT :limit;

-- name: search_deeds_on
-- What was done to one job, manifest, group..., alone or with others; an id may be that of a dead letter, too.
SELECT r.id, r.at, r.owner, r.actor, r.face, r.action, r.subject, r.detail, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place,
           (:actor::text IS NULL OR w.actor = :actor) AND (:since::timestamptz IS NULL OR w.at >= :since) AS is_match
    FROM (SELECT a.* FROM (
              SELECT n.audit_id FROM (
                  SELECT audit_id FROM gandy.audit_subject
                  WHERE owner = :owner AND subject = :subject AND audit_id < :before ORDER BY audit_id DESC LIMIT :searched) n
              UNION
              SELECT l.audit_id FROM (
                  SELECT audit_id FROM gandy.audit_subject
                  WHERE owner = :owner AND subject = :letter AND audit_id < :before ORDER BY audit_id DESC LIMIT :searched) l
              ORDER BY audit_id DESC LIMIT :searched) s
          JOIN gandy.audit a ON a.id = s.audit_id) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;

-- name: gather_deeds
-- All deeds since an instant, if there are few; otherwise the first row has place = searched.
SELECT r.id, r.at, r.owner, r.actor, r.face, r.action, r.subject, r.detail, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER () AS place,
           w.id < :before AND (:owner::text IS NULL OR w.owner = :owner) AND (:actor::text IS NULL OR w.actor = :actor)
           AND (:subject::text IS NULL OR EXISTS (
               SELECT 1 FROM gandy.audit_subject s
               WHERE s.owner = w.owner AND s.subject IN (:subject, :letter) AND s.audit_id = w.id)) AS is_match
    FROM (SELECT * FROM gandy.audit WHERE at >= :since ORDER BY at, id LIMIT :searched) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.place = :searched DESC, r.id DESC LIMIT :limit;
