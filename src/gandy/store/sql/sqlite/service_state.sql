-- name: remember
-- Written in the cycle's own transaction: a killed cycle stores nothing.
INSERT INTO service_state (owner, key, value, updated_at) VALUES (:owner, :key, :value, gandy_now())
ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at;

-- name: take_turn
-- The first caller after the interval gets a row, the others none.
INSERT INTO service_state (owner, key, value, updated_at) VALUES (:owner, :key, 'null', gandy_now())
ON CONFLICT (owner, key) DO UPDATE SET updated_at = gandy_now()
WHERE service_state.updated_at <= gandy_later(-:every_seconds)
   OR service_state.updated_at > gandy_later(:every_seconds)  -- taken while the clock was wrong
RETURNING key;
