-- name: write_live_logs
-- Lines of live runs: a claim that lost its run (other fence) writes nothing; KEY SHARE makes the end wait for these lines.
WITH owned AS (
    SELECT r.id, r.fence FROM gandy.work_queue r
    WHERE r.id = ANY(%(run_id)s::bigint[]) AND r.train_state IS NOT NULL ORDER BY r.id FOR KEY SHARE
)
INSERT INTO gandy.log (bucket, metadata_id, created_at, level, logger, message)
SELECT 'infinity', l.run_id, l.created_at, l.level, l.logger, l.message
FROM unnest(%(run_id)s::bigint[], %(fence)s::bigint[], %(created_at)s::timestamptz[], %(level)s::text[],
            %(logger)s::text[], %(message)s::text[])
     WITH ORDINALITY AS l(run_id, fence, created_at, level, logger, message, place)
-- a hashed subplan: a join would compare every line with every run
WHERE ((l.run_id, l.fence) IN (SELECT id, fence FROM owned)) IS TRUE
ORDER BY l.place;

-- name: keep_logs
-- The last lines of runs that have just ended, in the piece of the run.
INSERT INTO gandy.log (bucket, piece, metadata_id, created_at, level, logger, message)
SELECT split_part(l.bucket, '/', 1)::date, split_part(l.bucket, '/', 2)::smallint, l.run_id, l.created_at, l.level, l.logger, l.message
FROM unnest(%(run_id)s::bigint[], %(bucket)s::text[], %(created_at)s::timestamptz[], %(level)s::text[],
            %(logger)s::text[], %(message)s::text[])
     WITH ORDINALITY AS l(run_id, bucket, created_at, level, logger, message, place)
ORDER BY l.place;

-- name: settle_logs
-- Move lines that were written during the run to its piece, so that both are dropped together.
WITH ended AS (
    SELECT run_id, split_part(bucket, '/', 1)::date AS bucket, split_part(bucket, '/', 2)::smallint AS piece
    FROM unnest(%(run_id)s::bigint[], %(bucket)s::text[]) AS e(run_id, bucket)
), moved AS (
    DELETE FROM gandy.log_live l USING ended e WHERE l.metadata_id = e.run_id AND l.bucket = 'infinity'
    RETURNING l.id, e.bucket AS day, e.piece AS settled_in, l.metadata_id, l.created_at, l.level, l.logger, l.message
)
INSERT INTO gandy.log (id, bucket, piece, metadata_id, created_at, level, logger, message)
SELECT id, day, settled_in, metadata_id, created_at, level, logger, message FROM moved;
