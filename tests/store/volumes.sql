-- 40,000 future entries and kept runs, 20,000 ready entries, 3,000 live runs, 5,000 manifests.
SET session_replication_role = replica;
INSERT INTO gandy.manifest_group (owner, name) SELECT 'shop', 'group ' || g FROM generate_series(1, 5) g;
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds,
                            next_scheduled_run, next_look_at)
SELECT 'm' || n, 'shop', 'Sell', 1 + n % 5, 'interval', 60, now() + interval '1 hour', now() + interval '1 hour'
FROM generate_series(1, 5000) n;
INSERT INTO gandy.work_queue (owner, train_name, manifest_group_id, origin, gate, due_at, scheduled_at)
SELECT 'shop', 'Sell', 1 + n % 5, 'ad_hoc', 'time', now() + n * interval '1 second', now() + n * interval '1 second'
FROM generate_series(1, 40000) n;
INSERT INTO gandy.work_queue (owner, train_name, manifest_group_id, origin, gate, priority, due_at, scheduled_at)
SELECT 'shop', 'Sell', 1 + n % 5, 'ad_hoc', 'open', n % 7, now() - interval '1 minute', now() - interval '1 minute'
FROM generate_series(1, 20000) n;
INSERT INTO gandy.work_queue (owner, train_name, manifest_group_id, origin, status, due_at, scheduled_at, dispatched_at, train_state,
                              claim_rank, start_time, deadline_at, worker_id, fence)
SELECT 'shop', 'Sell', 1 + n % 5, 'ad_hoc', 'dispatched', now(), now(), now(),
       CASE WHEN n % 3 = 0 THEN 'pending' ELSE 'in_progress' END, CASE WHEN n % 3 = 0 THEN 0 END,
       now(), now() + interval '20 minutes', CASE WHEN n % 3 > 0 THEN 'worker-1' END, CASE WHEN n % 3 > 0 THEN 1 END
FROM generate_series(1, 3000) n;
INSERT INTO gandy.history (bucket, owner, name, origin, train_state, manifest_group_id, due_at, created_at, start_time, end_time, keep_until)
SELECT CASE WHEN n % 4 = 0 THEN '-infinity'::date ELSE current_date + (n % 30)::int END, 'shop', 'Sell', 'ad_hoc', 'completed',
       1 + n % 5, now(), now(), now(), now(), now() + interval '7 days'
FROM generate_series(1, 40000) n;
