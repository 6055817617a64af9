-- name: drop_surplus_web_keys
-- Before a new key: deletes the oldest of the same kind and token beyond the limit, and no other token's.
DELETE FROM gandy.web_key WHERE id IN (
    SELECT id FROM gandy.web_key WHERE owner = %(owner)s AND kind = %(kind)s AND token = %(token)s
    ORDER BY created_at DESC, id OFFSET %(most)s);

-- name: keep_web_key
-- The random part of a new session or code.
INSERT INTO gandy.web_key (id, owner, kind, secret, token, name, expires_at)
VALUES (%(id)s, %(owner)s, %(kind)s, %(secret)s, %(token)s, %(name)s,
        gandy.now() + make_interval(secs => %(keep_seconds)s::float8));
