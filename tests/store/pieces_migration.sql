-- 600 runs on three days and by row, a line of every third one, and a line of a run that goes on.
INSERT INTO history (id, bucket, owner, name, train_state, created_at, start_time, end_time, keep_until, output)
SELECT nextval('attempt_id'), CASE n % 4 WHEN 0 THEN '-infinity' ELSE current_date + n % 4 END, 'shop', 'MakeReport', 'completed',
       now(), now(), now(), now() + interval '9 days', to_json(n) FROM generate_series(1, 600) n;
INSERT INTO log (bucket, metadata_id, created_at, level, logger, message)
SELECT bucket, id, now(), 'info', 'test', 'line of ' || id FROM history WHERE id % 3 = 0;
INSERT INTO log (bucket, metadata_id, created_at, level, logger, message) VALUES ('infinity', 987654, now(), 'info', 'test', 'live');
