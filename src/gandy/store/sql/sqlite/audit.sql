-- name: record_deed
-- In the transaction of the deed: neither is there without the other.
INSERT INTO audit (at, owner, actor, face, action, subject, detail)
VALUES (gandy_now(), :owner, :actor, :face, :action, :subject, :detail);

-- name: list_deeds
-- The newest first.
SELECT id, at, owner, actor, face, action, subject, detail FROM audit
WHERE (:owner IS NULL OR owner = :owner) AND (:before IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit;
