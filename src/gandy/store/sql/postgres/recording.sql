-- name: record_administrative_run
-- Inserted as finished, and kept only briefly: pruned by row, not with a day's partition.
INSERT INTO gandy.history (
    bucket, owner, name, train_state, output, created_at, start_time, end_time, keep_until, failure_junction,
    failure_exception, failure_reason, stack_trace, junctions)
SELECT '-infinity', %(owner)s, %(name)s, %(train_state)s, %(output)s::json, started, started, now,
       now + make_interval(secs => %(keep_seconds)s::float8), %(failure_junction)s, %(failure_exception)s,
       %(failure_reason)s, %(stack_trace)s, %(junctions)s::json
FROM (SELECT gandy.now() AS now, gandy.now() - make_interval(secs => %(took_seconds)s::float8) AS started) t
RETURNING id;
