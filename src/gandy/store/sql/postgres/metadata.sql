-- name: start_run
-- A run that its caller starts at once: its entry was never queued.
INSERT INTO gandy.work_queue (
    owner, train_name, status, origin, parent_id, due_at, scheduled_at, input, created_at, dispatched_at, is_retried,
    train_state, start_time, deadline_at, worker_id, fence)
SELECT %(owner)s, %(name)s, 'dispatched', 'local',
       -- the calling run, unless it belongs to another application
       (SELECT r.id FROM gandy.work_queue r WHERE r.id = %(parent_id)s AND r.train_state IS NOT NULL AND r.owner = %(owner)s),
       now, now, %(input)s::json, now, now, false, 'in_progress', now,
       now + make_interval(secs => nullif(least(%(timeout_seconds)s::float8, 4e9::float8), 4e9::float8)), %(worker_id)s, nextval('gandy.fence')
FROM gandy.now() AS now
RETURNING id, fence, start_time AS started_at;

-- name: end_runs
-- Moves runs from the queue into the current piece of the day they expire, if their claim still owns them (fence).
-- A run that an operator cancelled is recorded as cancelled even if it failed.
-- The row moves: a column that outlives the end is in RETURNING, INSERT and SELECT, or its value is lost.
WITH clock AS MATERIALIZED (
    SELECT gandy.now() AS now, floor(date_part('epoch', gandy.now()) / 60)::bigint AS minute, since, until, p.*,
           gandy.now() + make_interval(secs => %(usual_seconds)s::float8) AS usual_until
    FROM gandy.history_horizon,
        -- arrays, because a join would read them again for every run
        (SELECT array_agg(day) AS days, array_agg(piece) AS pieces FROM gandy.history_piece) p
    WHERE is_only
), usual AS MATERIALIZED (
    -- the place of ends with the usual retention, which are almost all: computed once
    SELECT clock.*, b.bucket AS usual_bucket, p.piece AS usual_piece, b.bucket || '/' || p.piece AS usual_place
    FROM clock, LATERAL (SELECT CASE
        WHEN %(usual_seconds)s::float8 >= 86400 AND (usual_until AT TIME ZONE 'UTC')::date >= since
             AND (usual_until AT TIME ZONE 'UTC')::date < until
        THEN (usual_until AT TIME ZONE 'UTC')::date ELSE '-infinity' END AS bucket) b,
        LATERAL (SELECT coalesce(pieces[array_position(days, b.bucket)], 0) AS piece) p
), ended AS MATERIALIZED (
    SELECT e.*, now, minute, days, pieces, usual_piece, usual_place, k.keep_until, CASE
        WHEN e.keep_for_seconds IS NULL THEN usual_bucket
        WHEN e.keep_for_seconds >= 86400 AND (k.keep_until AT TIME ZONE 'UTC')::date >= since
             AND (k.keep_until AT TIME ZONE 'UTC')::date < until
        THEN (k.keep_until AT TIME ZONE 'UTC')::date ELSE '-infinity' END AS bucket
    FROM usual, unnest(
        -- Subselects hide the array lengths from the planner, which would otherwise replan for each number of ends.
        (SELECT %(id)s::bigint[]), (SELECT %(worker_id)s::text[]), (SELECT %(fence)s::bigint[]),
        (SELECT %(train_state)s::text[]), (SELECT %(output)s::text[]), (SELECT %(junctions)s::text[]),
        (SELECT %(failure_junction)s::text[]), (SELECT %(failure_exception)s::text[]),
        (SELECT %(failure_reason)s::text[]), (SELECT %(stack_trace)s::text[]),
        (SELECT %(cancellation_reason)s::text[]), (SELECT %(keep_for_seconds)s::float8[]),
        (SELECT %(progress_done)s::bigint[]), (SELECT %(progress_total)s::bigint[]))
        AS e(id, worker_id, fence, train_state, output, junctions, failure_junction, failure_exception, failure_reason, stack_trace,
             cancellation_reason, keep_for_seconds, progress_done, progress_total),
        LATERAL (SELECT CASE WHEN e.keep_for_seconds IS NULL THEN usual_until
                             ELSE now + make_interval(secs => e.keep_for_seconds) END AS keep_until) k
), gone AS (
    DELETE FROM gandy.work_queue r USING ended e
    -- Written so that only the index on id can serve: with another one the planner would compare every pair.
    WHERE r.id BETWEEN e.id AND e.id AND r.train_state IS NOT NULL
      AND coalesce(r.worker_id, '') = coalesce(e.worker_id, '') AND coalesce(r.fence, 0) = coalesce(e.fence, 0)
    RETURNING r.id, r.owner, r.external_id, r.train_name, r.manifest_id, r.manifest_group_id, r.parent_id, r.retry_of,
        r.dead_letter_id, nullif(r.origin, 'local') AS origin, r.priority, r.due_at, nullif(r.scheduled_at, r.due_at) AS scheduled_at,
        r.attempt, r.input, r.input_type_name, r.dispatched_at, r.start_time, r.max_retries, r.is_retried, r.retry_delay_seconds,
        r.timeout_seconds, r.cancellation_requested, r.cancellation_requested_at, r.is_cancellation_ignored, r.worker_id, r.fence,
        CASE WHEN e.train_state = 'failed' AND coalesce(r.cancellation_reason, '') = 'operator' THEN 'cancelled'
             ELSE e.train_state END AS train_state,
        e.train_state = 'failed' AND coalesce(r.cancellation_reason, '') = 'operator' AS is_overruled,
        e.output, e.junctions, e.failure_junction, e.failure_exception, e.failure_reason, e.stack_trace,
        coalesce(r.cancellation_reason, e.cancellation_reason) AS cancellation_reason,
        e.progress_done, e.progress_total, e.now, e.keep_until, e.bucket, e.minute,
        CASE WHEN e.keep_for_seconds IS NULL THEN e.usual_piece
             ELSE coalesce(e.pieces[array_position(e.days, e.bucket)], 0) END AS piece,
        CASE WHEN e.keep_for_seconds IS NULL THEN e.usual_place END AS place
), kept AS (
    INSERT INTO gandy.history (
        id, bucket, owner, external_id, name, train_state, manifest_id, manifest_group_id, parent_id, retry_of, dead_letter_id,
        origin, priority, due_at, scheduled_at, attempt, input, input_type_name, output, created_at, start_time, end_time,
        keep_until, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failure_junction, failure_exception,
        failure_reason, stack_trace, cancellation_requested, cancellation_reason, cancellation_requested_at,
        is_cancellation_ignored, junctions, progress_done, progress_total, worker_id, fence, piece)
    SELECT id, bucket, owner, external_id, train_name, train_state, manifest_id, manifest_group_id, parent_id, retry_of,
        dead_letter_id, origin, priority, due_at, scheduled_at, attempt, input, input_type_name, output::json, dispatched_at,
        start_time, now, keep_until, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failure_junction,
        failure_exception, failure_reason, stack_trace, cancellation_requested, cancellation_reason,
        cancellation_requested_at, is_cancellation_ignored, junctions::json, progress_done, progress_total, worker_id, fence,
        piece
    FROM gone
)
SELECT id, coalesce(place, bucket || '/' || piece) AS bucket, is_overruled, minute,
       -- date_part, because extract computes with numeric
       date_part('epoch', start_time - coalesce(scheduled_at, due_at)) AS waited,
       date_part('epoch', now - start_time) AS took, EXISTS (
    SELECT 1 FROM gandy.manifest_group g
    WHERE g.id = ANY(ARRAY(SELECT DISTINCT manifest_group_id FROM gone)) AND g.max_active_jobs IS NOT NULL
) AS is_freed
FROM gone;
