-- compatible_from: 16
-- History and log in pieces: a day is one piece until it is large, then several, and each piece is dropped whole. Partitions
-- keep their rows: they are attached to new parents, and one scan of each proves its bounds. Stop all servers before this
-- migration; older code is refused afterwards.

-- The piece into which ended runs of a day go, once it is not the first; a day without a row has piece 0 only.
CREATE TABLE gandy.history_piece (
    day       date PRIMARY KEY,
    piece     smallint NOT NULL CHECK (piece > 0),
    opened_at timestamptz NOT NULL DEFAULT gandy.now()
);

-- A detach that was cut short holds its table in the old parent.
DO $$
DECLARE
    leaf record;
BEGIN
    FOR leaf IN
        SELECT c.relname AS name, p.relname AS parent FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        JOIN pg_class p ON p.oid = i.inhparent
        WHERE i.inhparent IN ('gandy.history'::regclass, 'gandy.log'::regclass) AND i.inhdetachpending
    LOOP
        EXECUTE format('ALTER TABLE gandy.%I DETACH PARTITION gandy.%I FINALIZE', leaf.parent, leaf.name);
        EXECUTE format('DROP TABLE gandy.%I', leaf.name);
    END LOOP;
END $$;

ALTER TABLE gandy.history ADD COLUMN piece smallint NOT NULL DEFAULT 0;  -- of the day in bucket; with it, dropped whole
ALTER TABLE gandy.log ADD COLUMN piece smallint NOT NULL DEFAULT 0;  -- that of the run
ALTER TABLE gandy.history RENAME TO history_before;
ALTER TABLE gandy.log RENAME TO log_before;
ALTER INDEX gandy.ix_log_metadata RENAME TO ix_log_metadata_before;

-- No primary key: each partition has its own, and one on the parent would have to contain bucket and piece.
CREATE TABLE gandy.history (LIKE gandy.history_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY RANGE (bucket, piece);
CREATE TABLE gandy.log (LIKE gandy.log_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY RANGE (bucket, piece);

DO $$
DECLARE
    leaf  record;
    bound text;
    day   date;
BEGIN
    FOR leaf IN
        SELECT c.relname::text AS name, p.relname::text AS parent, replace(p.relname, '_before', '') AS new_parent
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
        WHERE i.inhparent IN ('gandy.history_before'::regclass, 'gandy.log_before'::regclass)
        ORDER BY c.relname
    LOOP
        IF leaf.name LIKE '%\_rowwise' THEN
            bound := 'FROM (MINVALUE, MINVALUE) TO (''1900-01-01'', MINVALUE)';
        ELSIF leaf.name LIKE '%\_live' THEN
            bound := 'FROM (''infinity'', MINVALUE) TO (MAXVALUE, MAXVALUE)';
        ELSE
            day := to_date(right(leaf.name, 8), 'YYYYMMDD');
            bound := format('FROM (%L, 0) TO (%L, 1)', day, day);
        END IF;
        EXECUTE format('ALTER TABLE gandy.%I DETACH PARTITION gandy.%I', leaf.parent, leaf.name);
        EXECUTE format('ALTER TABLE gandy.%I ATTACH PARTITION gandy.%I FOR VALUES %s', leaf.new_parent, leaf.name, bound);
    END LOOP;
END $$;
-- Finds the index of each partition, and makes none.
CREATE INDEX ix_log_metadata ON gandy.log (metadata_id, id);

-- The same rows and columns as before.
CREATE OR REPLACE VIEW gandy.metadata AS
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

-- Creates the tables of one piece, then attaches them: CREATE ... PARTITION OF would make inserts wait for readers.
CREATE FUNCTION gandy.add_history_piece(day date, piece integer) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parent text;
    leaf   text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['history', 'log'] LOOP
        leaf := parent || to_char(day, '_YYYYMMDD') || CASE WHEN piece > 0 THEN '_' || piece ELSE '' END;
        CONTINUE WHEN to_regclass('gandy.' || leaf) IS NOT NULL;
        EXECUTE format('CREATE TABLE gandy.%I (LIKE gandy.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', leaf, parent);
        IF parent = 'history' THEN
            EXECUTE format('ALTER TABLE gandy.%I ADD PRIMARY KEY (id)', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (name, start_time)', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (manifest_id, id) WHERE manifest_id IS NOT NULL', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (train_state, id) WHERE train_state <> ''completed''', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (retry_of) WHERE retry_of IS NOT NULL', leaf);
        ELSE
            EXECUTE format('CREATE INDEX ON gandy.%I (metadata_id, id)', leaf);
        END IF;
        EXECUTE format('ALTER TABLE gandy.%I ATTACH PARTITION gandy.%I FOR VALUES FROM (%L, %s) TO (%L, %s)',
                       parent, leaf, day, piece, day, piece + 1);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION gandy.add_history_day(day date) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT gandy.add_history_piece(day, 0);
END;

-- Other roles may do what they might do before; who may read the horizon may read the pieces.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT CASE c.relname WHEN 'history_horizon' THEN 'history_piece' ELSE replace(c.relname, '_before', '') END AS object,
               a.privilege_type AS privilege,
               CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid IN ('gandy.history_before'::regclass, 'gandy.log_before'::regclass, 'gandy.history_horizon'::regclass)
          AND a.grantee <> c.relowner AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON gandy.%I TO %s', kept.privilege, kept.object, kept.role);
    END LOOP;
END $$;

DROP TABLE gandy.history_before;
DROP TABLE gandy.log_before;

-- What waits is found by its owner. Entries that are ready or live are in none of these.
DROP INDEX gandy.ix_work_queue_future;
CREATE INDEX ix_work_queue_future ON gandy.work_queue (owner, scheduled_at) WHERE status = 'queued' AND gate = 'time';
CREATE INDEX ix_work_queue_held ON gandy.work_queue (owner, scheduled_at) WHERE status = 'queued' AND gate = 'manifest';
CREATE INDEX ix_work_queue_waiting_owner ON gandy.work_queue (owner, id) WHERE status = 'waiting';
