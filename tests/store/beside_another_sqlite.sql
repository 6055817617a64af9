-- What beside_another.sql writes, on SQLite, for one application at a time: {owner} with {count} rows of each kind.
INSERT INTO manifest_group (owner, name, created_at, updated_at) VALUES ('{owner}', 'default', '{now}', '{now}');
INSERT INTO worker (id, owner, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, trains)
VALUES ('{owner}', '{owner}', 'here', 1, '1', '{now}', '{now}', '{later}', 4, '["send", "ship"]');
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {count})
INSERT INTO work_queue (owner, train_name, input, manifest_id, manifest_group_id, status, gate, reason, origin, due_at, scheduled_at, created_at, settled_at)
SELECT '{owner}', CASE WHEN n % 2 = 0 THEN 'send' ELSE 'ship' END, '1', CASE WHEN n % 20 IN (14, 15, 16) THEN 10000000 + {first} + n END, g.id,
       CASE WHEN n % 20 = 16 THEN 'waiting' WHEN n % 20 = 18 THEN 'skipped' WHEN n % 20 = 19 THEN 'cancelled' ELSE 'queued' END,
       CASE WHEN n % 20 < 10 THEN 'open' WHEN n % 20 < 14 THEN 'time' WHEN n % 20 < 16 THEN 'manifest' WHEN n % 20 = 17 THEN 'train' ELSE 'open' END,
       CASE WHEN n % 20 = 18 THEN 'active' END, 'ad_hoc', '{now}', CASE WHEN n % 20 BETWEEN 10 AND 13 THEN '{later}' ELSE '{earlier}' END,
       '{earlier}', CASE WHEN n % 20 >= 18 THEN '{now}' END
FROM t, manifest_group g WHERE g.owner = '{owner}';
INSERT INTO work_queue (owner, train_name, manifest_group_id, status, train_state, origin, due_at, scheduled_at, created_at, dispatched_at, start_time, deadline_at, worker_id, fence)
SELECT '{owner}', 'send', g.id, 'dispatched', 'in_progress', 'ad_hoc', '{now}', '{now}', '{now}', '{now}', '{now}', '{later}', '{owner}', 1
FROM manifest_group g, (VALUES (1), (2), (3), (4)) WHERE g.owner = '{owner}';
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {count})
INSERT INTO history (id, owner, name, train_state, origin, manifest_group_id, created_at, start_time, end_time, keep_until)
SELECT 20000000 + {first} + n, '{owner}', CASE WHEN n % 2 = 0 THEN 'send' ELSE 'ship' END, CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'completed' END,
       'ad_hoc', g.id, '{earlier}', '{earlier}', '{earlier}', '{later}'
FROM t, manifest_group g WHERE g.owner = '{owner}';
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {count} / 10)
INSERT INTO dead_letter (owner, manifest_group_id, train_name, metadata_id, status, reason, dead_lettered_at)
SELECT '{owner}', 1, 'send', n, 'awaiting_intervention', 'x', '{now}' FROM t;
