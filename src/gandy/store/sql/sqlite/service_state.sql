-- name: recall
-- What an earlier cycle left, in whichever process it ran.
SELECT value FROM service_state WHERE owner = :owner AND key = :key;

-- name: remember
-- Written in the cycle's own transaction: a killed cycle remembers nothing.
INSERT INTO service_state (owner, key, value, updated_at) VALUES (:owner, :key, :value, gandy_now())
ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at;

-- name: forget
-- Nothing to remember any more.
DELETE FROM service_state WHERE owner = :owner AND key = :key;

-- name: take_turn
-- The first caller after the span gets a row, the others none.
INSERT INTO service_state (owner, key, value, updated_at) VALUES (:owner, :key, 'null', gandy_now())
ON CONFLICT (owner, key) DO UPDATE SET updated_at = gandy_now()
WHERE service_state.updated_at <= gandy_later(-:every_seconds)
   OR service_state.updated_at > gandy_later(:every_seconds)  -- taken under a clock that was wrong
RETURNING key;
