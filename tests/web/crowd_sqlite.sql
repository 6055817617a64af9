-- 100,000 manifests, 1,000,000 runs, and what goes with them, or a share of that; what was there before is rare and old among it.
CREATE TEMP TABLE n AS WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000000 / {share}) SELECT n FROM n;
CREATE TEMP TABLE at AS SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z' AS now, strftime('%Y-%m-%dT%H:%M:%f', 'now', '1 hour') || '000Z' AS later,
    strftime('%Y-%m-%dT%H:%M:%f', 'now', '7 days') || '000Z' AS kept;
INSERT OR IGNORE INTO manifest_group (owner, name, created_at, updated_at) SELECT 'shop', 'group-' || n, now, now FROM temp.n, temp.at WHERE n <= 300;
INSERT OR IGNORE INTO manifest (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds, next_scheduled_run, next_look_at, created_at, updated_at)
SELECT printf('bulk-%06d', n), CASE WHEN n % 1000 = 0 THEN 'other' ELSE 'shop' END, 'send_parcel',
       (SELECT id FROM manifest_group WHERE owner = 'shop' AND name = 'default'), 'interval', 3600, later, later, now, now
FROM temp.n, temp.at WHERE n <= 80000 / {share};
INSERT OR IGNORE INTO manifest (external_id, owner, name, manifest_group_id, schedule_type, depends_on_manifest_id, created_at, updated_at)
SELECT printf('child-%06d', n), 'shop', 'send_parcel', (SELECT id FROM manifest_group WHERE owner = 'shop' AND name = 'default'), 'dependent',
       (SELECT id FROM manifest WHERE external_id = 'bulk-000001'), now, now
FROM temp.n, temp.at WHERE n <= 20000 / {share};
INSERT OR IGNORE INTO manifest_edge (child_id, parent_id, kind)
SELECT id, depends_on_manifest_id, 'success' FROM manifest WHERE schedule_type = 'dependent' AND depends_on_manifest_id > 0;
INSERT OR IGNORE INTO manifest (external_id, owner, name, manifest_group_id, schedule_type, cron_expression, is_enabled, created_at, updated_at)
SELECT 'zz-' || n, 'shop', 'log_in', (SELECT id FROM manifest_group WHERE owner = 'shop' AND name = 'etl'), 'cron', '0 3 * * *', 0, now, now
FROM temp.n, temp.at WHERE n <= 5;
INSERT OR IGNORE INTO history (id, owner, name, origin, train_state, manifest_id, manifest_group_id, due_at, created_at, start_time, end_time, keep_until)
SELECT 1000 + n, CASE WHEN n % 100 = 1 THEN 'other' ELSE 'shop' END, 'send_parcel', 'schedule', CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END,
       CASE WHEN n % 4 = 0 THEN (SELECT id FROM manifest WHERE external_id = 'bulk-000002') END, 1, now, now, now, now, kept
FROM temp.n, temp.at;
INSERT OR IGNORE INTO work_queue (id, owner, train_name, manifest_group_id, origin, status, train_state, due_at, scheduled_at, created_at, dispatched_at, start_time)
SELECT 2000000 + n, 'other', 'send_parcel', 1, 'ad_hoc', 'dispatched', 'pending', now, now, now, now, now FROM temp.n, temp.at WHERE n <= 15000 / {share};
INSERT OR IGNORE INTO dead_letter (owner, manifest_group_id, train_name, metadata_id, reason, dead_lettered_at)
SELECT 'shop', 1, 'send_parcel', n, 'too many failures', now FROM temp.n, temp.at WHERE n <= 30000 / {share};
INSERT OR IGNORE INTO audit (at, owner, actor, face, action, subject) SELECT now, 'other', 'nobody', 'api', 'nothing', 'n' FROM temp.n, temp.at WHERE n <= 50000 / {share};
INSERT OR IGNORE INTO run_rollup (owner, scope, grain, at, train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds,
                                  longest_seconds, waits, durations)
SELECT 'shop', 'train', 'minute', strftime('%Y-%m-%dT%H:%M', 'now', -n || ' minutes') || ':00.000000Z', 'send_parcel', 0, 9, 1, 0, 2.0, 9.0,
       '0:3 20:4 40:2 60:1 ', '0:3 20:4 40:2 60:1 ' FROM temp.n WHERE n <= 180
UNION ALL
SELECT 'shop', 'train', 'hour', strftime('%Y-%m-%dT%H', 'now', -n || ' hours') || ':00:00.000000Z', 'send_parcel', 0, 9, 1, 0, 2.0, 9.0,
       '0:3 20:4 40:2 60:1 ', '0:3 20:4 40:2 60:1 ' FROM temp.n WHERE n <= 72
UNION ALL
SELECT 'shop', 'manifest', 'hour', strftime('%Y-%m-%dT%H', 'now', -(n % 6) || ' hours') || ':00:00.000000Z', 'send_parcel', 100 + n / 6, 9, n % 2,
       0, 2.0, n % 60, '0:3 20:4 40:2 60:1 ', '0:3 20:4 40:2 60:1 ' FROM temp.n WHERE n <= 24000 / {share};
INSERT OR IGNORE INTO table_sample (owner, scheduler, table_name, at, is_daily, rows, bytes)
SELECT '', 'gandy', 'crowd-' || n % 30, strftime('%Y-%m-%dT%H', 'now', -(n / 30) || ' hours') || ':00:00.000000Z', 0, 900000 - n, 90000000 - 100 * n
FROM temp.n WHERE n <= 30 * 168;
