-- name: remember
-- Written in the cycle's own transaction: a killed cycle stores nothing.
INSERT INTO gandy.service_state AS s (owner, key, value) VALUES (%(owner)s, %(key)s, %(value)s::json)
ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value, updated_at = gandy.now();

-- name: take_turn
-- The first caller after the interval gets a row, the others none.
INSERT INTO gandy.service_state AS s (owner, key, value) VALUES (%(owner)s, %(key)s, 'null')
ON CONFLICT (owner, key) DO UPDATE SET updated_at = gandy.now()
WHERE s.updated_at <= gandy.now() - make_interval(secs => %(every_seconds)s::float8)
   OR s.updated_at > gandy.now() + make_interval(secs => %(every_seconds)s::float8)  -- taken while the clock was wrong
RETURNING s.key;
