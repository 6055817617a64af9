-- name: take_unique_keys
-- A key is free, or its time is over: either way it is taken in this one statement.
INSERT INTO gandy.unique_key AS held (owner, key, holder_id, held_until, expires_at)
SELECT %(owner)s, w.key, nextval('gandy.attempt_id'), %(held_until)s,
       gandy.now() + make_interval(secs => %(keep_seconds)s::float8)
FROM unnest(%(key)s::text[]) AS w(key)
ORDER BY w.key
ON CONFLICT (owner, key) DO UPDATE
SET holder_id = excluded.holder_id, held_until = excluded.held_until, expires_at = excluded.expires_at
WHERE held.expires_at <= gandy.now()
RETURNING key, holder_id;

-- name: find_key_holders
-- Who holds the keys that could not be taken.
SELECT key, holder_id FROM gandy.unique_key WHERE owner = %(owner)s AND key = ANY(%(keys)s::text[]);

-- name: release_keys
-- The work is over: the same may be asked for again.
DELETE FROM gandy.unique_key WHERE holder_id = ANY(%(holder_ids)s::bigint[]) AND held_until <> 'expiry';

-- name: pass_keys
-- The next attempt holds the key of the one that failed.
UPDATE gandy.unique_key k SET holder_id = p.heir_id
FROM unnest(%(holder_id)s::bigint[], %(heir_id)s::bigint[]) AS p(holder_id, heir_id)
WHERE k.holder_id = p.holder_id AND k.held_until <> 'expiry';

-- name: take_request_key
-- Of two requests with one key the first does the work; the second waits for it here and finds its answer.
INSERT INTO gandy.unique_key AS held (owner, key, holder_id, held_until, expires_at)
VALUES (%(owner)s, %(key)s, 0, 'expiry', gandy.now() + make_interval(secs => %(keep_seconds)s::float8))
ON CONFLICT (owner, key) DO UPDATE SET holder_id = 0, expires_at = excluded.expires_at
WHERE held.expires_at <= gandy.now()
RETURNING key;

-- name: keep_answer
-- Which job the request came to.
UPDATE gandy.unique_key SET holder_id = %(holder_id)s WHERE owner = %(owner)s AND key = %(key)s;
