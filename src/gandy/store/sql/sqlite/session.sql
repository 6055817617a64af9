-- name: keep_order
-- Differs by necessity: here the statements themselves name the index.
SELECT 1;

-- name: ping
-- Asks a silent connection whether it is still there.
SELECT 1;

-- name: notify
-- Differs by necessity: other processes on the host see the file change, nobody is called.
SELECT :payload AS payload;

-- name: read_clock
-- The one clock, registered on the connection.
SELECT gandy_now() AS now;

-- name: try_lock
-- Differs by necessity: BEGIN IMMEDIATE is the lock.
SELECT 1 AS is_held, :name AS name;

-- name: schema_exists
-- Before the first migration there is nothing to ask.
SELECT count(*) > 0 AS is_there FROM sqlite_master WHERE type = 'table' AND name = 'schema_version';

-- name: schema_version
-- The newest migration applied.
SELECT version, compatible_from FROM schema_version ORDER BY version DESC LIMIT 1;

-- name: record_migration
-- In the same transaction as the migration itself.
INSERT INTO schema_version (version, compatible_from) VALUES (:version, :compatible_from);
