-- name: queue
-- Joins are written "id BETWEEN x AND x" and guards are wrapped in coalesce, so that the only way to a row is a probe of
-- its primary key. With "=" the planner, whose statistics date from a moment when the table was empty, reads a whole index
-- for every batch and compares every pair of rows: a hundred times slower.
CREATE SEQUENCE fence;
CREATE TABLE manifest (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, success_count bigint NOT NULL DEFAULT 0,
    failure_count int NOT NULL DEFAULT 0, last_successful_run bigint, active_run bigint
) WITH (fillfactor = 70);
CREATE TABLE work_queue (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL, train_name text NOT NULL, input {json}, manifest_id bigint, group_id bigint NOT NULL,
    priority smallint NOT NULL, status text NOT NULL DEFAULT 'queued', origin text NOT NULL DEFAULT 'ad_hoc',
    due_at timestamptz NOT NULL, attempt int NOT NULL DEFAULT 1, scheduled_at timestamptz NOT NULL,
    is_ready boolean NOT NULL, created_at timestamptz NOT NULL, dispatched_at timestamptz
);
CREATE INDEX work_queue_ready ON work_queue (owner, group_id, priority DESC, id) WHERE status = 'queued' AND is_ready;
CREATE INDEX work_queue_future ON work_queue (scheduled_at) WHERE status = 'queued' AND NOT is_ready;
CREATE UNIQUE INDEX work_queue_manifest ON work_queue (manifest_id) WHERE status = 'queued' AND manifest_id IS NOT NULL;
CREATE UNIQUE INDEX work_queue_occurrence ON work_queue (manifest_id, due_at, attempt) WHERE manifest_id IS NOT NULL;

-- name: columns
    id bigint NOT NULL, {key}
    owner text NOT NULL, name text NOT NULL, train_state text NOT NULL, manifest_id bigint, parent_id bigint,
    group_id bigint NOT NULL, due_at timestamptz NOT NULL, attempt int NOT NULL, input {json}, output {json},
    junctions {json}, created_at timestamptz NOT NULL, start_time timestamptz NOT NULL, end_time timestamptz,
    failure_junction text, failure_exception text, failure_reason text, stack_trace text,
    cancellation_requested boolean NOT NULL DEFAULT false, cancellation_reason text,
    worker_id uuid, fence bigint

-- name: log
CREATE SEQUENCE log_id;
CREATE TABLE log_{name} (
    id bigint NOT NULL DEFAULT nextval('log_id'), bucket date NOT NULL, metadata_id bigint NOT NULL,
    created_at timestamptz NOT NULL, level text NOT NULL, logger text NOT NULL, message text NOT NULL,
    PRIMARY KEY (id, bucket)
){partitioned};
CREATE INDEX ON log_{name} (metadata_id, id);

-- name: claim
WITH picked AS MATERIALIZED (
    SELECT id FROM work_queue
    WHERE status = 'queued' AND is_ready AND owner = 'bench' AND group_id = 1
    ORDER BY priority DESC, id LIMIT %(batch)s FOR UPDATE SKIP LOCKED
), taken AS (
    {take}
), started AS (
    INSERT INTO {target} (id, {key} owner, name, train_state, manifest_id, group_id, due_at, attempt, input,
                          created_at, start_time, worker_id, fence)
    SELECT id, {value} owner, train_name, 'in_progress', manifest_id, group_id, due_at, attempt, input,
           created_at, %(now)s, %(worker)s, nextval('fence')
    FROM taken RETURNING id, name, input, fence
)
SELECT id, name, input::text, fence FROM started

-- name: take_update
    UPDATE work_queue q SET status = 'dispatched', dispatched_at = %(now)s FROM picked
    WHERE q.id BETWEEN picked.id AND picked.id RETURNING q.*

-- name: take_delete
DELETE FROM work_queue q USING picked WHERE q.id BETWEEN picked.id AND picked.id RETURNING q.*

-- name: finish_in_place
WITH done AS (SELECT * FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(outputs)s::text[]) AS d (id, fence, output)),
finished AS (
    UPDATE {target} m SET train_state = 'completed', end_time = %(now)s, output = d.output::{json},
           junctions = '[["noop", 1]]' {keep}
    FROM done d
    WHERE {probe} AND m.fence = d.fence
          AND coalesce(m.train_state = 'in_progress' AND m.worker_id = %(worker)s, false) {prune}
    RETURNING m.id, m.manifest_id
), credited AS (
    UPDATE manifest SET success_count = success_count + 1, failure_count = 0, last_successful_run = f.id, active_run = NULL
    FROM finished f WHERE manifest.id BETWEEN f.manifest_id AND f.manifest_id RETURNING 1
)
SELECT count(*) FROM finished

-- name: finish_by_move
WITH done AS (SELECT * FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(outputs)s::text[]) AS d (id, fence, output)),
ended AS (
    DELETE FROM metadata_live m USING done d
    WHERE m.id BETWEEN d.id AND d.id AND m.fence = d.fence
          AND coalesce(m.train_state = 'in_progress' AND m.worker_id = %(worker)s, false)
    RETURNING m.*, d.output AS result
), kept AS (
    INSERT INTO {target} (id, bucket, keep_until, owner, name, train_state, manifest_id, group_id, due_at, attempt,
                          input, output, junctions, created_at, start_time, end_time, worker_id, fence)
    SELECT id, %(bucket)s, %(keep_until)s, owner, name, 'completed', manifest_id, group_id, due_at, attempt,
           input, result::{json}, '[["noop", 1]]', created_at, start_time, %(now)s, worker_id, fence
    FROM ended RETURNING id, manifest_id
), credited AS (
    UPDATE manifest SET success_count = success_count + 1, failure_count = 0, last_successful_run = f.id, active_run = NULL
    FROM kept f WHERE manifest.id BETWEEN f.manifest_id AND f.manifest_id RETURNING 1
)
SELECT count(*) FROM kept

-- name: history_indexes
CREATE INDEX ON {table} (name, start_time);
CREATE INDEX ON {table} (manifest_id, id) WHERE manifest_id IS NOT NULL;
