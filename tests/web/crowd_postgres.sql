-- 100,000 manifests, 1,000,000 runs, and what goes with them, or a share of that; what was there before is rare and old among it.
SET session_replication_role = replica;
INSERT INTO gandy.manifest_group (owner, name) SELECT 'shop', 'group-' || g FROM generate_series(1, 300) g
ON CONFLICT DO NOTHING;
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds, next_scheduled_run, next_look_at)
SELECT 'bulk-' || lpad(n::text, 6, '0'), CASE WHEN n % 1000 = 0 THEN 'other' ELSE 'shop' END, 'send_parcel',
       (SELECT id FROM gandy.manifest_group WHERE owner = 'shop' AND name = 'default'), 'interval', 3600,
       now() + interval '1 hour', now() + interval '1 hour'
FROM generate_series(1, 80000 / {share}) n
ON CONFLICT DO NOTHING;
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type, depends_on_manifest_id)
SELECT 'child-' || lpad(n::text, 6, '0'), 'shop', 'send_parcel',
       (SELECT id FROM gandy.manifest_group WHERE owner = 'shop' AND name = 'default'), 'dependent',
       (SELECT id FROM gandy.manifest WHERE external_id = 'bulk-000001')
FROM generate_series(1, 20000 / {share}) n
ON CONFLICT DO NOTHING;
INSERT INTO gandy.manifest_edge (child_id, parent_id, kind)
SELECT id, depends_on_manifest_id, 'success' FROM gandy.manifest WHERE schedule_type = 'dependent' AND depends_on_manifest_id > 0
ON CONFLICT DO NOTHING;
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type, cron_expression, is_enabled)
SELECT 'zz-' || n, 'shop', 'log_in', (SELECT id FROM gandy.manifest_group WHERE owner = 'shop' AND name = 'etl'), 'cron', '0 3 * * *', false
FROM generate_series(1, 5) n
ON CONFLICT DO NOTHING;
INSERT INTO gandy.history (id, bucket, owner, name, origin, train_state, manifest_id, manifest_group_id, due_at, created_at, start_time, end_time, keep_until)
SELECT nextval('gandy.attempt_id'), CASE WHEN n % 20 = 0 THEN '-infinity' ELSE (now() + (n % 7) * interval '1 day')::date END,
       CASE WHEN n % 100 = 1 THEN 'other' ELSE 'shop' END, 'send_parcel', 'schedule', CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END,
       CASE WHEN n % 4 = 0 THEN busy.id END, busy.manifest_group_id, at, at, at, at, now() + interval '7 days'
FROM generate_series(1, 1000000 / {share}) n, LATERAL (SELECT now() - (1000000 / {share} - n) * interval '300 milliseconds' AS at) a,
     (SELECT id, manifest_group_id FROM gandy.manifest WHERE external_id = 'bulk-000002') busy;
INSERT INTO gandy.work_queue (owner, train_name, manifest_group_id, origin, status, train_state, due_at, scheduled_at, dispatched_at, start_time)
SELECT 'other', 'send_parcel', 1, 'ad_hoc', 'dispatched', 'pending', now(), now(), now(), now() FROM generate_series(1, 15000 / {share}) n;
INSERT INTO gandy.dead_letter (owner, manifest_group_id, train_name, metadata_id, reason)
SELECT 'shop', 1, 'send_parcel', n, 'too many failures' FROM generate_series(1, 30000 / {share}) n;
INSERT INTO gandy.audit (owner, actor, face, action, subject) SELECT 'other', 'nobody', 'api', 'nothing', 'n' FROM generate_series(1, 50000 / {share}) n;
INSERT INTO gandy.run_rollup (owner, scope, grain, at, train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds,
                              longest_seconds, waits, durations)
SELECT 'shop', 'train', 'minute', date_trunc('minute', now(), 'UTC') - n * interval '1 minute', 'send_parcel', 0, 9, 1, 0, 2, 9, '0:3 20:4 40:2 60:1 ', '0:3 20:4 40:2 60:1 '
FROM generate_series(1, 180) n
UNION ALL
SELECT 'shop', 'train', 'hour', date_trunc('hour', now(), 'UTC') - n * interval '1 hour', 'send_parcel', 0, 9, 1, 0, 2, 9, '0:3 20:4 40:2 60:1 ', '0:3 20:4 40:2 60:1 '
FROM generate_series(1, 72) n
UNION ALL
SELECT 'shop', 'manifest', 'hour', date_trunc('hour', now(), 'UTC') - n % 6 * interval '1 hour', 'send_parcel', 100 + n / 6, 9, n % 2,
       0, 2, n % 60, '0:3 20:4 40:2 60:1 ', '0:3 20:4 40:2 60:1 ' FROM generate_series(1, 24000 / {share}) n
ON CONFLICT DO NOTHING;
INSERT INTO gandy.table_sample (owner, scheduler, table_name, at, is_daily, rows, bytes)
SELECT '', 'gandy', 'crowd-' || n % 30, date_trunc('hour', now(), 'UTC') - n / 30 * interval '1 hour', false, 900000 - n, 90000000 - 100 * n
FROM generate_series(1, 30 * 168) n
ON CONFLICT DO NOTHING;
SET session_replication_role = DEFAULT;
ANALYZE;
