-- Runs and entries of every state, as version 10 kept them. For SQLite, casts and the parts on buckets are left out.
INSERT INTO manifest_group (owner, name, created_at, updated_at) VALUES ('shop', 'default', @at::timestamptz, @at::timestamptz);
INSERT INTO manifest (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds, properties, active_run_id,
                      next_scheduled_run, created_at, updated_at)
SELECT 'report', 'shop', 'MakeReport', id, 'interval', 300, '4'::json, 4, @later::timestamptz, @at::timestamptz, @at::timestamptz
FROM manifest_group;
INSERT INTO work_queue (id, owner, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, status, reason,
                        origin, due_at, attempt, scheduled_at, created_at, dispatched_at, metadata_id, max_retries, retry_of)
SELECT e.column1, 'shop', 'MakeReport', CAST(e.column1 AS text)::json, 'Month',
       CASE WHEN e.column1 = 4 THEN m.id END, m.manifest_group_id, 3, e.column2,
       CASE WHEN e.column2 = 'skipped' THEN 'misfired' END, CASE WHEN e.column1 = 4 THEN 'schedule' ELSE 'ad_hoc' END,
       @at::timestamptz, e.column3, @at::timestamptz, @at::timestamptz, CASE WHEN e.column2 = 'dispatched' THEN @at::timestamptz END,
       CASE WHEN e.column2 = 'dispatched' THEN e.column1 END, 5, CASE WHEN e.column1 = 3 THEN 2 END
FROM manifest m, (VALUES (1, 'dispatched', 1), (2, 'dispatched', 1), (3, 'queued', 2), (4, 'dispatched', 1), (5, 'dispatched', 1),
                         (7, 'queued', 1), (8, 'skipped', 1)) e;
INSERT INTO metadata (/*bucket, */id, owner, name, train_state, manifest_id, manifest_group_id, origin, rank, due_at, attempt, input,
                      created_at, start_time, end_time, keep_until, deadline_at, worker_id, fence, output, failure_exception)
SELECT /*CASE WHEN e.column1 = 9 THEN '-infinity' WHEN e.column2 IN ('completed', 'failed') THEN (now() AT TIME ZONE 'UTC')::date + 3
            ELSE 'infinity' END, */e.column1, 'shop', CASE WHEN e.column1 = 9 THEN 'ManifestManagerTrain' ELSE 'MakeReport' END, e.column2,
       CASE WHEN e.column1 = 4 THEN m.id END, CASE WHEN e.column1 < 6 THEN m.manifest_group_id END,
       CASE WHEN e.column1 = 4 THEN 'schedule' WHEN e.column1 < 6 THEN 'ad_hoc' END, 3, @at::timestamptz, 1, CAST(e.column1 AS text)::json,
       @at::timestamptz, @at::timestamptz, CASE WHEN e.column2 IN ('completed', 'failed') THEN @at::timestamptz END,
       CASE WHEN e.column2 IN ('completed', 'failed') THEN @at::timestamptz END, @at::timestamptz,
       CASE WHEN e.column2 <> 'pending' THEN @worker END, CASE WHEN e.column2 <> 'pending' THEN 7 END,
       CASE WHEN e.column2 = 'completed' THEN 'true'::json END, CASE WHEN e.column2 = 'failed' THEN 'ValueError' END
FROM manifest m, (VALUES (1, 'completed'), (2, 'failed'), (4, 'in_progress'), (5, 'pending'), (6, 'in_progress'), (9, 'completed')) e;
INSERT INTO log (/*bucket, */metadata_id, created_at, level, logger, message)
SELECT /*CASE WHEN e.column1 = 1 THEN (now() AT TIME ZONE 'UTC')::date + 3 ELSE 'infinity' END, */e.column1, @at::timestamptz, 'info', 'shop',
       'line of ' || e.column1
FROM (VALUES (1), (4)) e
