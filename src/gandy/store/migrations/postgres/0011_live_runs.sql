-- compatible_from: 11
-- A live run is its queue entry: a claim is one update, an end one delete and one insert into history. Stop all servers
-- before this migration; older code is refused afterwards.

ALTER TABLE gandy.work_queue ADD COLUMN train_state text CHECK (train_state IN ('pending', 'in_progress'));
ALTER TABLE gandy.work_queue ADD COLUMN claim_rank smallint;  -- of a pending run: group priority first, then rank
ALTER TABLE gandy.work_queue ADD COLUMN start_time timestamptz;  -- the dispatch; once a worker starts it, the start
ALTER TABLE gandy.work_queue ADD COLUMN deadline_at timestamptz;  -- start_time plus the timeout
ALTER TABLE gandy.work_queue ADD COLUMN worker_id text;
ALTER TABLE gandy.work_queue ADD COLUMN fence bigint;
ALTER TABLE gandy.work_queue ADD COLUMN cancellation_requested boolean NOT NULL DEFAULT false;
ALTER TABLE gandy.work_queue ADD COLUMN cancellation_reason text CHECK (cancellation_reason IN ('operator', 'timeout', 'shutdown', 'lease_lost', 'caller', 'run'));
ALTER TABLE gandy.work_queue ADD COLUMN cancellation_requested_at timestamptz;
ALTER TABLE gandy.work_queue ADD COLUMN is_cancellation_ignored boolean NOT NULL DEFAULT false;
ALTER TABLE gandy.work_queue ADD COLUMN currently_running_junction text;
ALTER TABLE gandy.work_queue ADD COLUMN progress_done bigint;
ALTER TABLE gandy.work_queue ADD COLUMN progress_total bigint;
ALTER TABLE gandy.work_queue ADD COLUMN delivery_attempts integer NOT NULL DEFAULT 0;
ALTER TABLE gandy.work_queue ADD COLUMN deliver_after timestamptz;
ALTER TABLE gandy.work_queue ADD COLUMN delivery_error text;
ALTER TABLE gandy.work_queue ALTER COLUMN manifest_group_id DROP NOT NULL;
ALTER TABLE gandy.work_queue DROP CONSTRAINT work_queue_origin_check;
ALTER TABLE gandy.work_queue ADD CONSTRAINT work_queue_origin_check
    CHECK (origin IN ('schedule', 'dependent', 'trigger', 'retry', 'ad_hoc', 'dormant', 'requeue', 'local'));

-- Ended runs. The columns of fixed width come first, so that no byte is lost to alignment.
CREATE TABLE gandy.history (
    id                        bigint NOT NULL DEFAULT nextval('gandy.attempt_id'),
    manifest_id               bigint,
    manifest_group_id         bigint,
    parent_id                 bigint,
    retry_of                  bigint,             -- the attempt before this one
    dead_letter_id            bigint,
    fence                     bigint,
    due_at                    timestamptz,
    scheduled_at              timestamptz,        -- null: due_at
    created_at                timestamptz NOT NULL,
    start_time                timestamptz NOT NULL,
    end_time                  timestamptz NOT NULL,
    keep_until                timestamptz NOT NULL,
    cancellation_requested_at timestamptz,
    progress_done             bigint,
    progress_total            bigint,
    retry_delay_seconds       double precision,
    timeout_seconds           double precision,
    bucket                    date NOT NULL,      -- -infinity: pruned by row; a day: dropped with it
    attempt                   integer NOT NULL DEFAULT 1,
    max_retries               integer,
    priority                  smallint NOT NULL DEFAULT 0,
    is_retried                boolean,
    cancellation_requested    boolean NOT NULL DEFAULT false,
    is_cancellation_ignored   boolean NOT NULL DEFAULT false,
    external_id               uuid NOT NULL DEFAULT gen_random_uuid(),
    owner                     text NOT NULL,
    name                      text NOT NULL,      -- the train
    train_state               text NOT NULL CHECK (train_state IN ('completed', 'failed', 'cancelled')),
    origin                    text,               -- null: the caller started it without a queue entry
    worker_id                 text,
    input                     json,
    input_type_name           text,
    output                    json,
    junctions                 json,               -- timings
    failure_junction          text,
    failure_exception         text,
    failure_reason            text,
    stack_trace               text,
    cancellation_reason       text,
    PRIMARY KEY (id, bucket)
) PARTITION BY RANGE (bucket);

CREATE TABLE gandy.history_rowwise PARTITION OF gandy.history FOR VALUES FROM (MINVALUE) TO ('1900-01-01');
CREATE INDEX ix_history_rowwise_keep_until ON gandy.history_rowwise (keep_until, id);
CREATE INDEX ix_history_rowwise_name ON gandy.history_rowwise (name, start_time);
CREATE INDEX ix_history_rowwise_manifest ON gandy.history_rowwise (manifest_id, id) WHERE manifest_id IS NOT NULL;
CREATE INDEX ix_history_rowwise_unsuccessful ON gandy.history_rowwise (train_state, id) WHERE train_state <> 'completed';
CREATE INDEX ix_history_rowwise_retry_of ON gandy.history_rowwise (retry_of) WHERE retry_of IS NOT NULL;

-- Creates the tables of one day, then attaches them: CREATE ... PARTITION OF would make inserts wait for readers.
CREATE OR REPLACE FUNCTION gandy.add_history_day(day date) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parent text;
    leaf   text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['history', 'log'] LOOP
        leaf := parent || to_char(day, '_YYYYMMDD');
        CONTINUE WHEN to_regclass('gandy.' || leaf) IS NOT NULL;
        EXECUTE format('CREATE TABLE gandy.%I (LIKE gandy.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', leaf, parent);
        EXECUTE format('ALTER TABLE gandy.%I ADD CONSTRAINT bucket_day CHECK (bucket IS NOT NULL AND bucket >= %L AND bucket < %L)',
                       leaf, day, day + 1);
        IF parent = 'history' THEN
            EXECUTE format('ALTER TABLE gandy.%I ADD PRIMARY KEY (id, bucket)', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (name, start_time)', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (manifest_id, id) WHERE manifest_id IS NOT NULL', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (train_state, id) WHERE train_state <> ''completed''', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (retry_of) WHERE retry_of IS NOT NULL', leaf);
        ELSE
            EXECUTE format('CREATE INDEX ON gandy.%I (metadata_id, id)', leaf);
        END IF;
        EXECUTE format('ALTER TABLE gandy.%I ATTACH PARTITION gandy.%I FOR VALUES FROM (%L) TO (%L)',
                       parent, leaf, day, day + 1);
        EXECUTE format('ALTER TABLE gandy.%I DROP CONSTRAINT bucket_day', leaf);
    END LOOP;
END $$;

-- Ended runs, day by day. The policy of a job is known while its entry is there.
DO $$
DECLARE
    leaf   record;
    target text;
BEGIN
    FOR leaf IN
        SELECT c.relname::text AS name, i.inhrelid IS NOT NULL AS is_attached
        FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE c.relnamespace = 'gandy'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^metadata_(rowwise|[0-9]{8})$'
        ORDER BY c.relname
    LOOP
        IF leaf.is_attached THEN
            target := replace(leaf.name, 'metadata_', 'history_');
            IF target <> 'history_rowwise' THEN
                PERFORM gandy.add_history_day(to_date(right(leaf.name, 8), 'YYYYMMDD'));
            END IF;
            EXECUTE format(
                'INSERT INTO gandy.%I (
                     id, manifest_id, manifest_group_id, parent_id, retry_of, dead_letter_id, fence, due_at, scheduled_at, created_at,
                     start_time, end_time, keep_until, cancellation_requested_at, progress_done, progress_total, retry_delay_seconds,
                     timeout_seconds, bucket, attempt, max_retries, priority, is_retried, cancellation_requested,
                     is_cancellation_ignored, external_id, owner, name, train_state, origin, worker_id, input, input_type_name,
                     output, junctions, failure_junction, failure_exception, failure_reason, stack_trace, cancellation_reason)
                 SELECT r.id, r.manifest_id, r.manifest_group_id, r.parent_id, q.retry_of, q.dead_letter_id, r.fence, r.due_at,
                     nullif(q.scheduled_at, r.due_at), r.created_at, r.start_time, coalesce(r.end_time, r.start_time),
                     coalesce(r.keep_until, r.start_time), r.cancellation_requested_at, r.progress_done, r.progress_total,
                     q.retry_delay_seconds, q.timeout_seconds, r.bucket, r.attempt, q.max_retries, coalesce(q.priority, r.rank),
                     q.is_retried, r.cancellation_requested, r.is_cancellation_ignored, r.external_id, r.owner, r.name,
                     r.train_state, r.origin, r.worker_id, r.input, q.input_type_name, r.output, r.junctions, r.failure_junction,
                     r.failure_exception, r.failure_reason, r.stack_trace, r.cancellation_reason
                 FROM gandy.%I r LEFT JOIN gandy.work_queue q ON q.id = r.id
                 WHERE r.train_state IN (''completed'', ''failed'', ''cancelled'')', target, leaf.name);
        ELSE
            EXECUTE format('DROP TABLE gandy.%I', leaf.name);  -- past its day and detached: about to be dropped
        END IF;
    END LOOP;
END $$;

-- Live runs return to their entries; runs without an entry, which their callers started, get one.
UPDATE gandy.work_queue q SET
    train_state = r.train_state, claim_rank = CASE WHEN r.train_state = 'pending' THEN r.rank END, start_time = r.start_time,
    deadline_at = r.deadline_at, worker_id = r.worker_id, fence = r.fence, cancellation_requested = r.cancellation_requested,
    cancellation_reason = r.cancellation_reason, cancellation_requested_at = r.cancellation_requested_at,
    is_cancellation_ignored = r.is_cancellation_ignored, currently_running_junction = r.currently_running_junction,
    progress_done = r.progress_done, progress_total = r.progress_total, delivery_attempts = r.delivery_attempts,
    deliver_after = r.deliver_after, delivery_error = r.delivery_error
FROM gandy.metadata_live r WHERE q.id = r.id AND q.status = 'dispatched';
INSERT INTO gandy.work_queue (
    id, owner, external_id, train_name, input, status, origin, due_at, attempt, scheduled_at, created_at, dispatched_at,
    metadata_id, parent_id, is_retried, train_state, start_time, deadline_at, worker_id, fence, cancellation_requested,
    cancellation_reason, cancellation_requested_at, is_cancellation_ignored, currently_running_junction, progress_done,
    progress_total)
SELECT r.id, r.owner, r.external_id, r.name, r.input, 'dispatched', 'local', coalesce(r.due_at, r.created_at), r.attempt,
       coalesce(r.due_at, r.created_at), r.created_at, r.created_at, r.id, r.parent_id, false, r.train_state, r.start_time,
       r.deadline_at, r.worker_id, r.fence, r.cancellation_requested, r.cancellation_reason, r.cancellation_requested_at,
       r.is_cancellation_ignored, r.currently_running_junction, r.progress_done, r.progress_total
FROM gandy.metadata_live r WHERE r.manifest_id IS NULL AND NOT EXISTS (SELECT 1 FROM gandy.work_queue q WHERE q.id = r.id);
-- Entries of ended runs: history has them now.
DELETE FROM gandy.work_queue WHERE status = 'dispatched' AND train_state IS NULL;

ALTER TABLE gandy.work_queue
    ADD CONSTRAINT work_queue_live_run CHECK ((status = 'dispatched') = (train_state IS NOT NULL)),
    ADD CONSTRAINT work_queue_group CHECK (manifest_group_id IS NOT NULL OR origin = 'local');
DROP INDEX gandy.ix_work_queue_dispatched;
-- Live runs, which are few, in their order, by group, by deadline; pending ones in the order of claims.
CREATE INDEX ix_work_queue_live ON gandy.work_queue (id) WHERE status = 'dispatched';
CREATE INDEX ix_work_queue_live_group ON gandy.work_queue (manifest_group_id) WHERE status = 'dispatched';
CREATE INDEX ix_work_queue_live_deadline ON gandy.work_queue (deadline_at) WHERE train_state = 'in_progress';
CREATE INDEX ix_work_queue_live_pending ON gandy.work_queue (owner, claim_rank DESC, dispatched_at, id) WHERE train_state = 'pending';

ALTER TABLE gandy.metadata RENAME TO metadata_before;

-- All runs, live and ended.
CREATE VIEW gandy.metadata AS
SELECT id, bucket, owner, external_id, name, train_state, manifest_id, manifest_group_id, parent_id, origin, due_at, attempt,
       input, output, created_at, start_time, end_time, keep_until, NULL::timestamptz AS deadline_at, failure_junction,
       failure_exception, failure_reason, stack_trace, cancellation_requested, cancellation_reason, cancellation_requested_at,
       is_cancellation_ignored, NULL::text AS currently_running_junction, junctions, progress_done, progress_total, worker_id, fence
FROM gandy.history
UNION ALL
SELECT id, 'infinity'::date, owner, external_id, train_name, train_state, manifest_id, manifest_group_id, parent_id,
       nullif(origin, 'local'), due_at, attempt, input, NULL::json, dispatched_at, start_time, NULL::timestamptz, NULL::timestamptz,
       deadline_at, NULL::text, NULL::text, NULL::text, NULL::text, cancellation_requested, cancellation_reason,
       cancellation_requested_at, is_cancellation_ignored, currently_running_junction, NULL::json, progress_done,
       progress_total, worker_id, fence
FROM gandy.work_queue WHERE status = 'dispatched';

-- Other roles may do what they might do with the table of runs.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT CASE c.relname WHEN 'metadata_before' THEN 'history' ELSE 'history_rowwise' END AS object, a.privilege_type AS privilege,
               CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid IN ('gandy.metadata_before'::regclass, 'gandy.metadata_rowwise'::regclass) AND a.grantee <> c.relowner
          AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON gandy.%I TO %s', kept.privilege, kept.object, kept.role);
        IF kept.privilege = 'SELECT' AND kept.object = 'history' THEN
            EXECUTE format('GRANT SELECT ON gandy.metadata TO %s', kept.role);
        END IF;
    END LOOP;
END $$;

DROP INDEX gandy.ix_metadata_live_deadline;
DROP INDEX gandy.ix_metadata_live_group;
DROP INDEX gandy.ix_metadata_live_pending;
DROP INDEX gandy.ix_metadata_rowwise_keep_until;
DROP INDEX gandy.ix_metadata_rowwise_name;
DROP INDEX gandy.ix_metadata_rowwise_manifest;
DROP INDEX gandy.ix_metadata_rowwise_unsuccessful;
DROP TABLE gandy.metadata_before;

-- Without a cache in each connection: lines of a run are shown in the order of their ids, and several connections write them.
ALTER SEQUENCE gandy.log_id CACHE 1;
