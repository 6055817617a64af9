-- name: keep_order
-- Differs from PostgreSQL: SQLite statements name their index.
SELECT 1;

-- name: ping
-- Checks whether an idle connection is alive.
SELECT 1;

-- name: notify
-- Differs from PostgreSQL: no notification; other processes on the host poll the file for changes.
SELECT :payload AS payload;

-- name: read_clock
-- The clock that all decisions use, registered on the connection.
SELECT gandy_now() AS now;

-- name: try_lock
-- Differs from PostgreSQL: BEGIN IMMEDIATE is the lock.
SELECT 1 AS is_held, :name AS name;

-- name: schema_exists
-- False before the first migration.
SELECT count(*) > 0 AS is_there FROM sqlite_master WHERE type = 'table' AND name = 'schema_version';

-- name: schema_version
-- The newest migration applied.
SELECT version, compatible_from FROM schema_version ORDER BY version DESC LIMIT 1;

-- name: record_migration
-- In the same transaction as the migration itself.
INSERT INTO schema_version (version, compatible_from) VALUES (:version, :compatible_from);
