-- name: preload
INSERT INTO {table} (id, {bucket} keep_until, owner, name, train_state, group_id, due_at, attempt, input, output, junctions,
                     created_at, start_time, end_time, worker_id, fence)
SELECT %(first)s - n, {value} %(keep_until)s, 'bench', 'send_invoice', 'completed', 1, now(), 1, '{{"id": 1, "f": "xxxxxxxxxxxxxxxxxxxx"}}',
       '{{"ok": true}}', '[["noop", 1]]', now(), now(), now(), '00000000-0000-0000-0000-000000000007', n
FROM generate_series(1, %(rows)s) n

-- name: delete_batch
WITH gone AS (
    DELETE FROM metadata WHERE (keep_until, id) > (%(after_at)s, %(after_id)s) AND (keep_until, id) <= (
        SELECT keep_until, id FROM metadata WHERE (keep_until, id) > (%(after_at)s, %(after_id)s)
        AND keep_until <= %(keep_until)s ORDER BY keep_until, id OFFSET %(batch)s - 1 LIMIT 1)
    RETURNING keep_until, id)
SELECT max(keep_until), max(id), count(*) FROM gone

-- name: log_rows
INSERT INTO {table} (bucket, metadata_id, created_at, level, logger, message)
SELECT %(bucket)s, n / 3, now(), 'info', 'invoices', 'invoice ' || n || ' was sent to the customer'
FROM generate_series(1, %(rows)s) n

-- name: active
SELECT id FROM {table} WHERE train_state IN ('pending', 'in_progress')
