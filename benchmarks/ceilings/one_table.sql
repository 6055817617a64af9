-- name: schema
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, input json, output json,
    state text NOT NULL DEFAULT 'queued', priority smallint NOT NULL DEFAULT 0, worker text,
    created_at timestamptz NOT NULL DEFAULT now(), started_at timestamptz, ended_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX job_queued ON job (priority DESC, id) WHERE state = 'queued';

-- name: enqueue
INSERT INTO job (name, input) SELECT 'no_op', i::json FROM unnest(%b::text[]) AS i

-- name: claim
WITH picked AS MATERIALIZED (
    SELECT id FROM job WHERE state = 'queued' ORDER BY priority DESC, id LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE job SET state = 'running', started_at = now(), worker = 'w' FROM picked WHERE job.id BETWEEN picked.id AND picked.id
RETURNING job.id, name, input::text

-- name: finish
UPDATE job SET state = 'completed', ended_at = now(), output = d.output::json
FROM unnest(%b::bigint[], %b::text[]) AS d (id, output)
WHERE job.id BETWEEN d.id AND d.id AND coalesce(state = 'running', false)
