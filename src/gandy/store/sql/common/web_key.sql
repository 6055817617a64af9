-- name: find_web_key
-- A key that has not expired.
SELECT secret, token, name FROM gandy.web_key
WHERE id = :id AND owner = :owner AND kind = :kind AND expires_at > gandy.now();

-- name: take_web_key
-- Of several concurrent callers one gets the row.
DELETE FROM gandy.web_key WHERE id = :id AND owner = :owner AND kind = :kind
RETURNING secret, token, name, expires_at > gandy.now() AS is_valid;
