-- name: group
INSERT OR IGNORE INTO manifest_group (id, owner, name, created_at, updated_at)
VALUES (1, 'bench', 'default', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z')

-- name: enqueue
INSERT INTO work_queue (owner, train_name, input, input_type_name, manifest_group_id, origin, due_at, scheduled_at, created_at)
VALUES ('bench', 'no_op', ?, 'Invoice', 1, 'ad_hoc', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z')

-- name: pick
SELECT id, input FROM work_queue
WHERE owner = 'bench' AND manifest_group_id = 1 AND status = 'queued' AND gate = 'open' ORDER BY rank DESC, id LIMIT ?

-- name: dispatch
UPDATE work_queue SET status = 'dispatched', dispatched_at = '2026-01-01T00:00:00.000000Z', metadata_id = id
WHERE id = ? AND status = 'queued'

-- name: start
INSERT INTO metadata (id, owner, external_id, name, train_state, manifest_group_id, origin, rank, due_at, attempt, input,
                      created_at, start_time, deadline_at, worker_id, fence)
SELECT id, owner, external_id, train_name, 'in_progress', manifest_group_id, origin, rank, due_at, attempt, input,
       '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', 'w', 1
FROM work_queue WHERE id = ?

-- name: finish
UPDATE metadata SET train_state = 'completed', output = 'null', junctions = '[]', end_time = '2026-01-01T00:00:00.000000Z', keep_until = '2026-01-01T00:00:00.000000Z'
WHERE id = ? AND train_state = 'in_progress' AND worker_id = 'w' AND fence = 1

-- name: completed
SELECT count(*) FROM metadata WHERE train_state = 'completed'
