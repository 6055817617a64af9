-- name: write_live_logs
-- Lines of live runs: a claim that lost its run (other fence) writes nothing.
INSERT INTO log (metadata_id, created_at, level, logger, message)
SELECT :run_id, :created_at, :level, :logger, :message
WHERE EXISTS (SELECT 1 FROM work_queue WHERE id = :run_id AND fence = :fence AND train_state = 'in_progress');

-- name: keep_logs
-- Differs from PostgreSQL: one table, so there is no partition to choose.
INSERT INTO log (metadata_id, created_at, level, logger, message)
SELECT :run_id, :created_at, :level, :logger, :message WHERE :bucket IS NULL OR :bucket <> '';

-- name: settle_logs
-- Differs from PostgreSQL: one table, so nothing has to move.
SELECT :run_id AS run_id, :bucket AS bucket;
