-- name: record_audit
-- In the transaction of the audited change: neither is committed without the other.
INSERT INTO gandy.audit (at, owner, actor, face, action, subject, detail)
VALUES (gandy.now(), :owner, :actor, :face, :action, :subject, :detail::json);

-- name: search_deeds
-- Newest first.
SELECT r.id, r.at, r.owner, r.actor, r.face, r.action, r.subject, r.detail, r.place, r.is_match
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.id DESC) AS place, (:owner::text IS NULL OR w.owner = :owner) AS is_match
    FROM (SELECT * FROM gandy.audit WHERE id < :before ORDER BY id DESC LIMIT :searched) w) r
WHERE r.is_match OR r.place = :searched
ORDER BY r.id DESC LIMIT :limit;
