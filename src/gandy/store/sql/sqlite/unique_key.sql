-- name: take_unique_keys
-- Takes a key that is free or expired, in one statement.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'work_queue';
INSERT INTO unique_key AS held (owner, key, holder_id, held_until, expires_at)
VALUES (:owner, :key, (SELECT seq FROM sqlite_sequence WHERE name = 'work_queue'), :held_until, gandy_later(:keep_seconds))
ON CONFLICT (owner, key) DO UPDATE
SET holder_id = excluded.holder_id, held_until = excluded.held_until, expires_at = excluded.expires_at
WHERE held.expires_at <= gandy_now()
RETURNING key, holder_id;

-- name: find_key_holders
-- The holders of keys that could not be taken.
SELECT key, holder_id FROM unique_key WHERE owner = :owner AND key IN (SELECT value FROM json_each(:keys));

-- name: release_keys
-- The job is over: the key is free again.
DELETE FROM unique_key WHERE holder_id IN (SELECT value FROM json_each(:holder_ids)) AND held_until <> 'expiry';

-- name: pass_keys
-- Passes the key of a failed attempt to the next attempt.
UPDATE unique_key SET holder_id = :heir_id WHERE holder_id = :holder_id AND held_until <> 'expiry';

-- name: take_request_key
-- Of two requests with the same idempotency key the first does the work; the second finds the first's job.
INSERT INTO unique_key AS held (owner, key, holder_id, held_until, expires_at)
VALUES (:owner, :key, 0, 'expiry', gandy_later(:keep_seconds))
ON CONFLICT (owner, key) DO UPDATE SET holder_id = 0, expires_at = excluded.expires_at
WHERE held.expires_at <= gandy_now()
RETURNING key;
