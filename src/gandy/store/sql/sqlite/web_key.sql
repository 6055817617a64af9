-- name: drop_surplus_web_keys
-- Before a new key: deletes the oldest of the same kind and token beyond the limit, and no other token's.
DELETE FROM web_key WHERE id IN (
    SELECT id FROM web_key WHERE owner = :owner AND kind = :kind AND token = :token ORDER BY created_at DESC, id LIMIT -1 OFFSET :most);

-- name: keep_web_key
-- The random part of a new session or code.
INSERT INTO web_key (id, owner, kind, secret, token, name, created_at, expires_at)
VALUES (:id, :owner, :kind, :secret, :token, :name, gandy_now(), gandy_later(:keep_seconds));
