-- name: take_unique_keys
-- Takes a key that is free or expired, in one statement.
-- Only an expired key is locked: a caller's transaction may stay open for long, and must not block the claim or the end of
-- the job that holds the key. ON CONFLICT DO UPDATE would lock the row even if its condition is false.
-- It may run under the caller's search_path: functions have a schema.
WITH over AS MATERIALIZED (
    SELECT k.key FROM gandy.unique_key k
    WHERE k.owner = %(owner)s AND k.key = ANY(%(key)s::text[]) AND k.expires_at <= gandy.now() ORDER BY k.key FOR UPDATE
), renewed AS (
    UPDATE gandy.unique_key k SET holder_id = pg_catalog.nextval('gandy.attempt_id'), held_until = %(held_until)s,
        expires_at = gandy.now() + pg_catalog.make_interval(secs => %(keep_seconds)s::float8)
    FROM over WHERE k.owner = %(owner)s AND k.key = over.key
    RETURNING k.key, k.holder_id
), made AS (
    INSERT INTO gandy.unique_key (owner, key, holder_id, held_until, expires_at)
    SELECT %(owner)s, w.key, pg_catalog.nextval('gandy.attempt_id'), %(held_until)s,
           gandy.now() + pg_catalog.make_interval(secs => %(keep_seconds)s::float8)
    FROM pg_catalog.unnest(%(key)s::text[]) AS w(key) WHERE w.key NOT IN (SELECT key FROM over) ORDER BY w.key
    ON CONFLICT (owner, key) DO NOTHING
    RETURNING key, holder_id
)
SELECT key, holder_id FROM renewed UNION ALL SELECT key, holder_id FROM made;

-- name: find_key_holders
-- The holders of keys that could not be taken.
SELECT key, holder_id FROM gandy.unique_key WHERE owner = %(owner)s AND key = ANY(%(keys)s::text[]);

-- name: release_keys
-- The job is over: the key is free again. Skips a locked key: it has expired and is being taken over.
DELETE FROM gandy.unique_key WHERE (owner, key) IN (
    SELECT owner, key FROM gandy.unique_key WHERE holder_id = ANY(%(holder_ids)s::bigint[]) AND held_until <> 'expiry'
    FOR UPDATE SKIP LOCKED);

-- name: pass_keys
-- Passes the key of a failed attempt to the next attempt.
WITH free AS MATERIALIZED (
    SELECT k.owner, k.key, k.holder_id FROM gandy.unique_key k
    WHERE k.holder_id = ANY(%(holder_id)s::bigint[]) AND k.held_until <> 'expiry' FOR UPDATE SKIP LOCKED
)
UPDATE gandy.unique_key k SET holder_id = p.heir_id
FROM free JOIN unnest(%(holder_id)s::bigint[], %(heir_id)s::bigint[]) AS p(holder_id, heir_id) ON p.holder_id = free.holder_id
WHERE k.owner = free.owner AND k.key = free.key;

-- name: take_request_key
-- Of two requests with the same idempotency key the first does the work; the second waits here, then finds the first's job.
INSERT INTO gandy.unique_key AS held (owner, key, holder_id, held_until, expires_at)
VALUES (%(owner)s, %(key)s, 0, 'expiry', gandy.now() + make_interval(secs => %(keep_seconds)s::float8))
ON CONFLICT (owner, key) DO UPDATE SET holder_id = 0, expires_at = excluded.expires_at
WHERE held.expires_at <= gandy.now()
RETURNING key;
