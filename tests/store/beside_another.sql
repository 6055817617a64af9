-- Two applications: `small` has a hundred rows of each kind, and `large` has many, of the same trains and younger.
SET session_replication_role = replica;
INSERT INTO gandy.manifest_group (owner, name)
SELECT o.owner, g.name FROM (VALUES ('small'), ('large')) o(owner), (VALUES ('default'), ('etl')) g(name);
INSERT INTO gandy.manifest (external_id, owner, name, manifest_group_id, schedule_type, interval_seconds, next_scheduled_run, next_look_at)
SELECT 'm-' || n, g.owner, 'send', g.id, 'interval', 3600, now() + interval '1 hour', now() + interval '1 hour'
FROM gandy.manifest_group g, LATERAL generate_series(1, CASE g.owner WHEN 'small' THEN 10 ELSE {many} / 100 END) n WHERE g.name = 'default';
INSERT INTO gandy.worker (id, owner, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, trains)
SELECT o.owner, o.owner, 'here', 1, '1', now(), now(), now() + interval '1 hour', 4, ARRAY['send', 'ship']
FROM (VALUES ('small'), ('large')) o(owner);
-- of every twenty entries: ten ready, four for later, two held by their manifest, one waiting, one without a worker, two settled
INSERT INTO gandy.work_queue (owner, train_name, input, manifest_id, manifest_group_id, status, gate, reason, origin, due_at, scheduled_at, created_at, settled_at)
SELECT owner, CASE WHEN n % 2 = 0 THEN 'send' ELSE 'ship' END, '1', CASE WHEN kind IN (14, 15, 16) THEN 10000000 + 100 * rank + n END, id,
       CASE WHEN kind = 16 THEN 'waiting' WHEN kind = 18 THEN 'skipped' WHEN kind = 19 THEN 'cancelled' ELSE 'queued' END,
       CASE WHEN kind < 10 THEN 'open' WHEN kind < 14 THEN 'time' WHEN kind < 16 THEN 'manifest' WHEN kind = 17 THEN 'train' ELSE 'open' END,
       CASE WHEN kind = 18 THEN 'active' END, 'ad_hoc', now(), now() + CASE WHEN kind BETWEEN 10 AND 13 THEN interval '1 hour' ELSE '-1 hour' END,
       now() - interval '1 hour', CASE WHEN kind >= 18 THEN now() END
FROM (SELECT g.owner, g.id, n, n % 20 AS kind, CASE g.owner WHEN 'small' THEN 0 ELSE 1000000 END AS rank
      FROM gandy.manifest_group g, LATERAL generate_series(1, CASE g.owner WHEN 'small' THEN 100 ELSE {many} END) n
      WHERE g.name = 'default' ORDER BY g.owner DESC, n) rows;
INSERT INTO gandy.work_queue (owner, train_name, manifest_group_id, status, train_state, origin, due_at, scheduled_at, dispatched_at, start_time, deadline_at, worker_id, fence)
SELECT o.owner, 'send', (SELECT id FROM gandy.manifest_group g WHERE g.owner = o.owner AND g.name = 'default'), 'dispatched', 'in_progress', 'ad_hoc',
       now(), now(), now(), now(), now() + interval '1 hour', o.owner, 1
FROM (VALUES ('small'), ('large')) o(owner), LATERAL generate_series(1, CASE o.owner WHEN 'small' THEN 4 ELSE 100 END);
INSERT INTO gandy.history (id, bucket, owner, name, train_state, origin, manifest_id, manifest_group_id, created_at, start_time, end_time, keep_until)
SELECT nextval('gandy.attempt_id'), (now() AT TIME ZONE 'UTC')::date + 5, owner, CASE WHEN n % 2 = 0 THEN 'send' ELSE 'ship' END,
       CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'completed' END, 'ad_hoc', CASE WHEN n % 4 = 0 THEN m.id END, m.manifest_group_id,
       at, at, at, now() + interval '5 days'
FROM (SELECT m.*, n FROM gandy.manifest m, LATERAL generate_series(1, CASE m.owner WHEN 'small' THEN 100 ELSE {many} END) n
      WHERE m.external_id = 'm-1' ORDER BY m.owner DESC, n) m, LATERAL (SELECT now() - interval '50 minutes' AS at) a;
INSERT INTO gandy.history (id, bucket, owner, name, train_state, output, created_at, start_time, end_time, keep_until)
SELECT nextval('gandy.attempt_id'), '-infinity', o.owner, 'TableMaintenanceTrain', 'completed', '{"deleted": 1}', now(), now(), now(), now() + interval '1 hour'
FROM (VALUES ('small'), ('large')) o(owner), LATERAL generate_series(1, CASE o.owner WHEN 'small' THEN 60 ELSE least({many}, 600) END);
INSERT INTO gandy.dead_letter (owner, manifest_group_id, train_name, metadata_id, status, reason, resolved_at)
SELECT o.owner, 1, 'send', n, CASE WHEN n % 2 = 0 THEN 'acknowledged' ELSE 'awaiting_intervention' END, 'x', CASE WHEN n % 2 = 0 THEN now() END
FROM (VALUES ('small'), ('large')) o(owner), LATERAL generate_series(1, CASE o.owner WHEN 'small' THEN 100 ELSE {many} / 10 END) n ORDER BY o.owner DESC;
INSERT INTO gandy.audit (owner, actor, face, action, subject)
SELECT o.owner, 'me', 'cli', 'disable', 'x' FROM (VALUES ('small'), ('large')) o(owner), LATERAL generate_series(1, CASE o.owner WHEN 'small' THEN 100 ELSE {many} / 10 END) ORDER BY o.owner DESC;
INSERT INTO gandy.run_rollup (owner, scope, grain, at, train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits, durations)
SELECT o.owner, 'manifest', 'minute', date_trunc('minute', now()) - n % 100 * interval '1 minute', 'send', n, 1, 0, 0, 0, 0, '', ''
FROM (VALUES ('small'), ('large')) o(owner), LATERAL generate_series(1, CASE o.owner WHEN 'small' THEN 100 ELSE {many} / 10 END) n;
SET session_replication_role = DEFAULT;
