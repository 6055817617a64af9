-- name: take_unique_keys
-- A key is free, or its time is over: either way it is taken in this one statement.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'work_queue';
INSERT INTO unique_key AS held (owner, key, holder_id, held_until, expires_at)
VALUES (:owner, :key, (SELECT seq FROM sqlite_sequence WHERE name = 'work_queue'), :held_until, gandy_later(:keep_seconds))
ON CONFLICT (owner, key) DO UPDATE
SET holder_id = excluded.holder_id, held_until = excluded.held_until, expires_at = excluded.expires_at
WHERE held.expires_at <= gandy_now()
RETURNING key, holder_id;

-- name: find_key_holders
-- Who holds the keys that could not be taken.
SELECT key, holder_id FROM unique_key WHERE owner = :owner AND key IN (SELECT value FROM json_each(:keys));

-- name: release_keys
-- The work is over: the same may be asked for again.
DELETE FROM unique_key WHERE holder_id IN (SELECT value FROM json_each(:holder_ids)) AND held_until <> 'expiry';

-- name: pass_keys
-- The next attempt holds the key of the one that failed.
UPDATE unique_key SET holder_id = :heir_id WHERE holder_id = :holder_id AND held_until <> 'expiry';

-- name: take_request_key
-- Of two requests with one key the first does the work; the second finds its answer.
INSERT INTO unique_key AS held (owner, key, holder_id, held_until, expires_at)
VALUES (:owner, :key, 0, 'expiry', gandy_later(:keep_seconds))
ON CONFLICT (owner, key) DO UPDATE SET holder_id = 0, expires_at = excluded.expires_at
WHERE held.expires_at <= gandy_now()
RETURNING key;

-- name: keep_answer
-- Which job the request came to.
UPDATE unique_key SET holder_id = :holder_id WHERE owner = :owner AND key = :key;
