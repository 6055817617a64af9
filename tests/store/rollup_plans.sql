-- The large owner: 2,000 manifests with figures of 10 minutes, hours and days, and 20,000 tallies; the small one has 10 manifests.
INSERT INTO gandy.run_rollup (owner, scope, grain, at, train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds,
    longest_seconds, waits, durations)
SELECT o.owner, s.scope, g.grain, TIMESTAMPTZ '2026-01-05 12:00Z' - h * ('1 ' || g.grain)::interval, 'Sell',
    CASE s.scope WHEN 'train' THEN 0 ELSE m END, 1, 0, 0, 1, 1, '1:1 ', '1:1 '
FROM (VALUES ('bakery', 2000), ('shop', 10)) o(owner, many), (VALUES ('train'), ('manifest')) s(scope),
     (VALUES ('minute'), ('hour'), ('day')) g(grain), generate_series(0, 9) h, generate_series(1, 2000) m
WHERE m <= CASE s.scope WHEN 'train' THEN 1 ELSE o.many END;
INSERT INTO gandy.run_tally (owner, at, worker_id, train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds,
    longest_seconds, waits, durations)
SELECT o.owner, TIMESTAMPTZ '2026-01-05 12:00Z' - h * interval '1 minute', 'worker', 'Sell', m, 1, 0, 0, 1, 1, '1:1 ', '1:1 '
FROM (VALUES ('bakery', 2000), ('shop', 10)) o(owner, many), generate_series(0, 9) h, generate_series(1, 2000) m
WHERE m <= o.many;
INSERT INTO gandy.table_sample (owner, scheduler, table_name, at, is_daily, rows, bytes)
SELECT o.owner, 'rules', 'table-' || t, TIMESTAMPTZ '2026-01-05 12:00Z' - h * interval '1 hour', h % 24 = 0, 1, 1
FROM (VALUES ('bakery', 100), ('shop', 2)) o(owner, many), generate_series(0, 200) h, generate_series(1, 100) t
WHERE t <= o.many;
VACUUM ANALYZE
