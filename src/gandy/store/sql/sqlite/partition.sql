-- name: read_horizon
-- Differs from PostgreSQL: SQLite has no partitions, so no day has one.
SELECT NULL AS since, NULL AS until, NULL AS today WHERE 0;

-- name: read_history
-- Differs from PostgreSQL: SQLite has no partitions, so every run is kept by row as it should be.
SELECT NULL AS since, NULL AS until, NULL AS today, 0 AS past_leaves, 0 AS kept_by_row WHERE :limit < 0;

-- name: list_pieces
-- Differs from PostgreSQL: SQLite keeps history in one table, so there are no pieces.
SELECT NULL AS day, NULL AS number, NULL AS bytes, NULL AS is_current, NULL AS is_there WHERE 0;
