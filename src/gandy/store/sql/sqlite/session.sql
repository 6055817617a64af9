-- name: keep_order
-- Differs from PostgreSQL: SQLite statements name their index.
SELECT 1;

-- name: notify
-- Differs from PostgreSQL: no notification; other processes on the host poll the file for changes.
SELECT :payload AS payload;

-- name: try_lock
-- Differs from PostgreSQL: BEGIN IMMEDIATE is the lock.
SELECT 1 AS is_held, :name AS name;

-- name: schema_exists
-- False before the first migration.
SELECT count(*) > 0 AS is_there FROM sqlite_master WHERE type = 'table' AND name = 'schema_version';
