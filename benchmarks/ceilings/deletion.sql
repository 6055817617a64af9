-- name: runs
INSERT INTO gandy.history (
    id, bucket, owner, name, train_state, manifest_group_id, due_at, input, output, junctions, created_at, start_time,
    end_time, keep_until, worker_id, fence)
SELECT n, %(bucket)s, 'bench', 'sync_table', 'completed', 1, at, '{"table": "t"}', '{"ok": true}', '[]', at, at, at,
       at + interval '7 days', 'bench-worker', n
FROM generate_series(%(first)s::bigint, %(last)s::bigint) n,
     (SELECT gandy.now() - make_interval(days => %(age)s) AS at) t

-- name: logs
INSERT INTO gandy.log (bucket, metadata_id, created_at, level, logger, message)
SELECT %(bucket)s, n, gandy.now(), 'info', 'sync', 'table ' || n || ' was synchronised'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) n, generate_series(1, %(per_run)s)

-- name: next_batch
-- A keyset walk: each batch starts where the one before ended, never at the dead head of the index.
SELECT max(keep_until), max(id), array_agg(id) FROM (
    SELECT keep_until, id FROM gandy.history_rowwise
    WHERE (keep_until, id) > (%(at)s, %(id)s) AND keep_until <= gandy.now() ORDER BY keep_until, id LIMIT %(batch)s) b

-- name: delete_logs
DELETE FROM gandy.log_rowwise WHERE metadata_id = ANY(%(ids)b)

-- name: delete_runs
DELETE FROM gandy.history_rowwise WHERE id = ANY(%(ids)b) AND keep_until <= gandy.now()
