-- name: configure_session
-- Statistics taken while a hot table is empty would make the planner read all its dead rows: rows are reached by index.
-- Where another backend answers than the one that the connection was promised, a pooler stands between: then nothing
-- is left on that backend, and configure_transaction takes its place.
SELECT pg_backend_pid() AS backend, set_config('TimeZone', 'UTC', is_pooled),
       set_config('enable_seqscan', 'off', is_pooled), set_config('enable_hashjoin', 'off', is_pooled),
       set_config('enable_mergejoin', 'off', is_pooled),
       set_config('lock_timeout', '2s', is_pooled),  -- one row that another holds must not keep all others waiting
       set_config('jit', 'off', is_pooled)  -- a forbidden scan has a price that would have every plan compiled
FROM (SELECT pg_backend_pid() <> %(backend)s::int AS is_pooled) way;

-- name: configure_transaction
-- The same for one transaction: behind a pooler the next one has another backend. Rows are named, so columns are too.
SELECT set_config('TimeZone', 'UTC', true) AS zone, set_config('enable_seqscan', 'off', true) AS seqscan,
       set_config('enable_hashjoin', 'off', true) AS hashjoin, set_config('enable_mergejoin', 'off', true) AS mergejoin,
       set_config('jit', 'off', true) AS jit, set_config('lock_timeout', '2s', true) AS patience;

-- name: ask_listener
-- Which backend answers, and whether it still takes writes.
SELECT pg_backend_pid() AS backend, current_setting('transaction_read_only')::boolean AS is_read_only;

-- name: keep_order
-- For a walk that ends early: it must read along its index, and never gather and sort first.
SELECT set_config('enable_sort', 'off', true) AS sort, set_config('enable_bitmapscan', 'off', true) AS bitmap;

-- name: ping
-- Asks a silent connection whether it is still there.
SELECT 1;

-- name: listen
-- One channel for all wake-ups; the payload says which.
LISTEN gandy;

-- name: notify
-- PostgreSQL folds equal payloads of one transaction into one notification.
SELECT pg_notify('gandy', %(payload)s);

-- name: set_clock
-- A test moves the clock for one transaction.
SELECT set_config('gandy.now', %(now)s, true);

-- name: read_clock
-- The one clock.
SELECT gandy.now() AS now;

-- name: try_lock
-- Answers at once; the lock ends with the transaction.
SELECT pg_try_advisory_xact_lock(hashtext(%(name)s)) AS is_held;

-- name: lock_migrations
-- Two servers that migrate at once do it one after the other.
SELECT pg_advisory_xact_lock(hashtext('gandy_migrate'));

-- name: schema_exists
-- Before the first migration there is nothing to ask.
SELECT to_regclass('gandy.schema_version') IS NOT NULL AS is_there;

-- name: schema_version
-- The newest migration applied.
SELECT version, compatible_from FROM gandy.schema_version ORDER BY version DESC LIMIT 1;

-- name: record_migration
-- In the same transaction as the migration itself.
INSERT INTO gandy.schema_version (version, compatible_from) VALUES (%(version)s, %(compatible_from)s);
