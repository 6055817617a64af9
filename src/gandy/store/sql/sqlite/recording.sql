-- name: record_administrative_run
-- Inserted as finished, and kept only briefly: pruned by row, not with a day's partition.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'work_queue';
INSERT INTO history (
    id, owner, name, train_state, output, created_at, start_time, end_time, keep_until, failure_junction,
    failure_exception, failure_reason, stack_trace, junctions)
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'work_queue'), :owner, :name, :train_state, :output,
       gandy_later(-:took_seconds), gandy_later(-:took_seconds), gandy_now(), gandy_later(:keep_seconds),
       :failure_junction, :failure_exception, :failure_reason, :stack_trace, :junctions
RETURNING id;
