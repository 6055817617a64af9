-- name: record_deed
-- In the transaction of the deed: neither is there without the other.
INSERT INTO gandy.audit (at, owner, actor, face, action, subject, detail)
VALUES (gandy.now(), %(owner)s, %(actor)s, %(face)s, %(action)s, %(subject)s, %(detail)s::json);

-- name: list_deeds
-- The newest first.
SELECT id, at, owner, actor, face, action, subject, detail FROM gandy.audit
WHERE (%(owner)s::text IS NULL OR owner = %(owner)s) AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC LIMIT %(limit)s;
