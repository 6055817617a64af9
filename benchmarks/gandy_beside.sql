-- name: kept
-- Finished runs that are kept, spread over the days to come as seven days of work would leave them.
INSERT INTO gandy.history (id, bucket, owner, name, train_state, manifest_group_id, origin, due_at, attempt, input, output,
                            created_at, start_time, end_time, keep_until, junctions, worker_id, fence)
SELECT nextval('gandy.attempt_id'), current_date + 1 + (n %% 7)::int, 'bench', 'kept', 'completed', 1, 'ad_hoc', now(), 1,
       '{"invoice": 1, "customer": "c-1001"}', 'null', now(), now() - (n || ' milliseconds')::interval, now(),
       now() + interval '1 day' * (1 + n %% 7), '[]', 'somebody', 1
FROM generate_series(1, %(rows)s::bigint) n

-- name: future
INSERT INTO gandy.work_queue (owner, train_name, input, input_type_name, manifest_group_id, origin, gate, due_at, scheduled_at)
SELECT 'bench', 'no_op', '{"invoice": 1, "customer": "c-1001"}', 'Invoice', g.id, 'ad_hoc', 'time',
       now() + interval '1 day' + (n || ' milliseconds')::interval, now() + interval '1 day' + (n || ' milliseconds')::interval
FROM generate_series(1, %(rows)s::bigint) n, gandy.manifest_group g WHERE g.owner = 'bench' AND g.name = 'default'

-- name: others_group
INSERT INTO gandy.manifest_group (owner, name) VALUES ('another', 'default')
ON CONFLICT DO NOTHING

-- name: others_runs
INSERT INTO gandy.history (id, bucket, owner, name, train_state, manifest_group_id, origin, due_at, attempt, input, output,
                            created_at, start_time, end_time, keep_until, junctions, worker_id, fence)
SELECT nextval('gandy.attempt_id'), current_date + 1 + (n %% 7)::int, 'another', 'kept', 'completed', g.id, 'ad_hoc', now(), 1,
       '{"invoice": 1, "customer": "c-1001"}', 'null', now(), now() - (n || ' milliseconds')::interval, now(),
       now() + interval '1 day' * (1 + n %% 7), '[]', 'w', 1
FROM generate_series(1, %(rows)s::bigint) n, gandy.manifest_group g WHERE g.owner = 'another' AND g.name = 'default'

-- name: others_queue
-- Ready to run, and older than whatever is queued later.
INSERT INTO gandy.work_queue (owner, train_name, input, input_type_name, manifest_group_id, origin, due_at, scheduled_at)
SELECT 'another', 'no_op', '{"invoice": 1, "customer": "c-1001"}', 'Invoice', g.id, 'ad_hoc', now(), now()
FROM generate_series(1, %(rows)s::bigint) n, gandy.manifest_group g WHERE g.owner = 'another' AND g.name = 'default'

-- name: forget_queue
DELETE FROM gandy.work_queue WHERE owner = 'bench' AND gate <> 'time'

-- name: forget_runs
DELETE FROM gandy.history WHERE owner = 'bench' AND name = 'no_op'

-- name: analyze
ANALYZE gandy.work_queue, gandy.history
