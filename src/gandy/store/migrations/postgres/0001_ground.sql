-- compatible_from: 1
-- Gandy's tables. The manifest row is the lock and the cursor; history is only history:
-- nothing that decides whether something runs may depend on a row that cleanup deletes.

-- A role that owns the schema needs no privilege to create one. A schema of another role is refused: its owner could
-- replace these objects.
DO $$
DECLARE
    stranger text;
BEGIN
    IF to_regnamespace('gandy') IS NULL THEN
        CREATE SCHEMA gandy;
    END IF;
    SELECT o.rolname INTO stranger
    FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner JOIN pg_roles me ON me.rolname = current_user
    JOIN pg_database d ON d.datname = current_database()
    WHERE n.nspname = 'gandy' AND NOT o.rolsuper AND o.oid <> me.oid AND o.oid <> d.datdba
      AND (me.rolsuper OR NOT pg_has_role(me.oid, o.oid, 'MEMBER'));
    IF stranger IS NOT NULL THEN
        RAISE EXCEPTION 'schema gandy belongs to %: migrate as that role, or run: ALTER SCHEMA gandy OWNER TO %',
            quote_ident(stranger), quote_ident(current_user) USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- The clock that all decisions use. A test sets it with the session setting gandy.now.
CREATE FUNCTION gandy.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(nullif(current_setting('gandy.now', true), '')::timestamptz, statement_timestamp());

CREATE TABLE gandy.schema_version (
    version         integer PRIMARY KEY,
    compatible_from integer NOT NULL,           -- code older than this is refused
    applied_at      timestamptz NOT NULL DEFAULT statement_timestamp()
);

-- An attempt has one id for its whole life: the run takes the id of its queue entry.
CREATE SEQUENCE gandy.attempt_id AS bigint CACHE 1;
-- Every claim takes a fence; finishing, progress and logs are guarded by it.
CREATE SEQUENCE gandy.fence AS bigint CACHE 1;

CREATE TABLE gandy.manifest_group (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner           text NOT NULL,
    name            text NOT NULL,
    max_active_jobs integer CHECK (max_active_jobs > 0),
    priority        smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 31),
    is_enabled      boolean NOT NULL DEFAULT true,
    disabled_at     timestamptz,
    disabled_reason text,
    enabled_at                timestamptz,
    declared        json NOT NULL DEFAULT '{}',  -- as the application declares it
    overrides       json NOT NULL DEFAULT '{}',  -- set by an operator; wins until cleared
    created_at      timestamptz NOT NULL DEFAULT gandy.now(),
    updated_at      timestamptz NOT NULL DEFAULT gandy.now(),
    CONSTRAINT manifest_group_owner_name UNIQUE (owner, name)
);

CREATE TABLE gandy.manifest (
    id                        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    external_id               text COLLATE "C" NOT NULL CONSTRAINT manifest_external_id UNIQUE,
    owner                     text NOT NULL,
    name                      text COLLATE "C" NOT NULL,     -- the train
    manifest_group_id         bigint NOT NULL REFERENCES gandy.manifest_group,
    properties                json,              -- the train's input
    property_type_name        text,
    schedule_type             text NOT NULL
        CHECK (schedule_type IN ('none', 'cron', 'interval', 'once', 'dependent', 'dormant_dependent')),
    cron_expression           text,
    interval_seconds          double precision CHECK (interval_seconds > 0),
    timezone                  text NOT NULL DEFAULT 'UTC',
    scheduled_at              timestamptz,       -- once: its instant
    depends_on_manifest_id    bigint REFERENCES gandy.manifest,
    variance_seconds          double precision NOT NULL DEFAULT 0 CHECK (variance_seconds >= 0),
    exclusions                json NOT NULL DEFAULT '[]',
    misfire_policy            text NOT NULL DEFAULT 'fire_once_now'
        CHECK (misfire_policy IN ('fire_once_now', 'do_nothing', 'catch_up')),
    misfire_threshold_seconds double precision NOT NULL DEFAULT 60 CHECK (misfire_threshold_seconds >= 0),
    max_retries               integer NOT NULL DEFAULT 3 CHECK (max_retries >= 0),
    is_retried                boolean NOT NULL DEFAULT true,
    retry_delay_seconds       double precision CHECK (retry_delay_seconds >= 0),
    timeout_seconds           double precision CHECK (timeout_seconds > 0),
    priority                  smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 31),
    keep_for_seconds          double precision CHECK (keep_for_seconds >= 0),
    keep_last                 integer CHECK (keep_last > 0),
    origin                    text NOT NULL DEFAULT 'declared' CHECK (origin IN ('declared', 'runtime')),
    batch                     text,              -- the schedule_many that made it
    is_enabled                boolean NOT NULL DEFAULT true,
    disabled_at               timestamptz,
    disabled_reason           text,
    enabled_at                timestamptz,
    orphaned_at               timestamptz,       -- no longer declared; removed a day later
    declared                  json NOT NULL DEFAULT '{}',
    overrides                 json NOT NULL DEFAULT '{}',
    -- the state that decides about runs, kept here so that history may be pruned
    next_scheduled_run        timestamptz,       -- the cursor: the next nominal instant without a verdict
    next_look_at              timestamptz,       -- when the manager has to look; null: when something changes
    failure_count             integer NOT NULL DEFAULT 0,
    success_count             bigint NOT NULL DEFAULT 0,
    parent_success_seen       bigint NOT NULL DEFAULT 0,
    has_dependents_due        boolean NOT NULL DEFAULT false,
    active_run_id             bigint,
    last_run_id               bigint,
    last_failed_run_id        bigint,
    last_successful_run_id    bigint,
    last_successful_run       timestamptz,
    completed_at              timestamptz,       -- once: finished
    last_skip_id              bigint,            -- the verdict row that the next skip of the same kind extends
    last_skip_reason          text,
    created_at                timestamptz NOT NULL DEFAULT gandy.now(),
    updated_at                timestamptz NOT NULL DEFAULT gandy.now(),
    CHECK (schedule_type <> 'cron' OR cron_expression IS NOT NULL),
    CHECK (schedule_type <> 'interval' OR interval_seconds IS NOT NULL),
    CHECK (schedule_type NOT IN ('dependent', 'dormant_dependent') OR depends_on_manifest_id IS NOT NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);  -- otherwise dead index entries accumulate where a cycle starts to read

-- The only index that a cycle reads: it has only manifests with a look.
CREATE INDEX ix_manifest_next_look ON gandy.manifest (next_look_at, manifest_group_id, priority, id)
    WHERE next_look_at IS NOT NULL;
CREATE INDEX ix_manifest_dependents_due ON gandy.manifest (id) WHERE has_dependents_due;
CREATE INDEX ix_manifest_depends_on ON gandy.manifest (depends_on_manifest_id)
    WHERE depends_on_manifest_id IS NOT NULL;
CREATE INDEX ix_manifest_group ON gandy.manifest (manifest_group_id, id);
CREATE INDEX ix_manifest_batch ON gandy.manifest (owner, batch, id);
CREATE INDEX ix_manifest_name ON gandy.manifest (name, external_id);
CREATE INDEX ix_manifest_disabled ON gandy.manifest (external_id) WHERE NOT is_enabled;
CREATE INDEX ix_manifest_orphaned ON gandy.manifest (orphaned_at, id) WHERE orphaned_at IS NOT NULL;
-- Without declared manifests: they stay until they are orphaned, and a walk would have to skip them.
CREATE INDEX ix_manifest_completed ON gandy.manifest (completed_at, id)
    WHERE completed_at IS NOT NULL AND origin = 'runtime';
CREATE INDEX ix_manifest_keep_last ON gandy.manifest (id) WHERE keep_last IS NOT NULL;

CREATE TABLE gandy.work_queue (
    id                  bigint PRIMARY KEY DEFAULT nextval('gandy.attempt_id'),
    owner               text NOT NULL,
    external_id         uuid NOT NULL DEFAULT gen_random_uuid(),
    train_name          text NOT NULL,
    input               json,
    input_type_name     text,
    manifest_id         bigint,
    manifest_group_id   bigint NOT NULL,
    priority            smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 31),
    status              text NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'dispatched', 'cancelled', 'skipped')),
    -- what holds a queued entry back: nothing, its instant, its manifest (active or disabled), a train without a worker
    gate                text NOT NULL DEFAULT 'open' CHECK (gate IN ('open', 'time', 'manifest', 'train')),
    reason              text CHECK (reason IN ('excluded', 'misfired', 'coalesced', 'active', 'already_queued',
                                               'dead_letter', 'disabled', 'error')),
    error               text,
    origin              text NOT NULL
        CHECK (origin IN ('schedule', 'dependent', 'trigger', 'retry', 'ad_hoc', 'dormant', 'requeue')),
    rank                smallint NOT NULL GENERATED ALWAYS AS
        (least(31, priority + CASE WHEN origin = 'dependent' THEN 16 ELSE 0 END)) STORED,  -- the order of dispatch
    due_at              timestamptz NOT NULL,
    due_until           timestamptz,
    occurrences         bigint NOT NULL DEFAULT 1,
    attempt             integer NOT NULL DEFAULT 1,
    scheduled_at        timestamptz NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT gandy.now(),
    dispatched_at       timestamptz,
    settled_at          timestamptz,             -- when it was skipped or cancelled
    metadata_id         bigint,
    dead_letter_id      bigint,
    -- the policy of a job without a manifest, and the counts of its attempts
    max_retries         integer CHECK (max_retries >= 0),
    is_retried          boolean,
    retry_delay_seconds double precision CHECK (retry_delay_seconds >= 0),
    timeout_seconds     double precision CHECK (timeout_seconds > 0),
    failures            integer NOT NULL DEFAULT 0,
    losses              integer NOT NULL DEFAULT 0,   -- times it was lost with its worker after it had begun
    lone_losses         integer NOT NULL DEFAULT 0,   -- the same, alone in a process of its own
    unique_key          text,
    retry_of            bigint,                  -- the attempt before this one
    parent_id           bigint,                  -- the run that this one repeats
    CHECK (status <> 'skipped' OR reason IS NOT NULL)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX ix_work_queue_unique_queued_manifest ON gandy.work_queue (manifest_id)
    WHERE status = 'queued' AND manifest_id IS NOT NULL;
CREATE UNIQUE INDEX ix_work_queue_unique_occurrence ON gandy.work_queue (manifest_id, due_at, attempt)
    WHERE manifest_id IS NOT NULL;
-- The index of claims: groups by loose index scan, then the top of each.
CREATE INDEX ix_work_queue_ready ON gandy.work_queue (owner, manifest_group_id, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open';
-- An operator's trigger runs even if its group is disabled.
CREATE INDEX ix_work_queue_triggered ON gandy.work_queue (owner, manifest_group_id, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open' AND origin = 'trigger';
CREATE INDEX ix_work_queue_future ON gandy.work_queue (scheduled_at) WHERE status = 'queued' AND gate = 'time';
CREATE INDEX ix_work_queue_unknown_train ON gandy.work_queue (owner, train_name)
    WHERE status = 'queued' AND gate = 'train';
CREATE INDEX ix_work_queue_dispatched ON gandy.work_queue (dispatched_at) WHERE status = 'dispatched';
CREATE INDEX ix_work_queue_settled ON gandy.work_queue (status, coalesce(settled_at, created_at), id)
    WHERE status IN ('skipped', 'cancelled');
CREATE INDEX ix_work_queue_retry_of ON gandy.work_queue (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX ix_work_queue_dead_letter ON gandy.work_queue (dead_letter_id)
    WHERE dead_letter_id IS NOT NULL AND status = 'queued';

-- Runs. A live run is in metadata_live; finishing moves it, once, into the partition of the day it expires.
CREATE TABLE gandy.metadata (
    id                        bigint NOT NULL DEFAULT nextval('gandy.attempt_id'),
    bucket                    date NOT NULL,      -- infinity: live; -infinity: pruned by row; a day: dropped with it
    owner                     text NOT NULL,
    external_id               uuid NOT NULL DEFAULT gen_random_uuid(),
    name                      text NOT NULL,      -- the train
    train_state               text NOT NULL
        CHECK (train_state IN ('pending', 'in_progress', 'completed', 'failed', 'cancelled')),
    manifest_id               bigint,
    manifest_group_id         bigint,
    parent_id                 bigint,
    origin                    text,
    rank                      smallint NOT NULL DEFAULT 0,
    due_at                    timestamptz,
    attempt                   integer NOT NULL DEFAULT 1,
    input                     json,
    output                    json,
    created_at                timestamptz NOT NULL,
    start_time                timestamptz NOT NULL,
    end_time                  timestamptz,
    keep_until                timestamptz,
    deadline_at               timestamptz,        -- start_time plus the timeout
    failure_junction          text,
    failure_exception         text,
    failure_reason            text,
    stack_trace               text,
    cancellation_requested    boolean NOT NULL DEFAULT false,
    cancellation_reason       text CHECK (cancellation_reason IN ('operator', 'timeout', 'shutdown', 'lease_lost', 'caller', 'run')),
    cancellation_requested_at timestamptz,
    is_cancellation_ignored   boolean NOT NULL DEFAULT false,
    currently_running_junction text,
    junctions                 json,               -- timings, in the row
    progress_done             bigint,
    progress_total            bigint,
    worker_id                 text,
    fence                     bigint,
    delivery_attempts         integer NOT NULL DEFAULT 0,
    deliver_after             timestamptz,
    delivery_error            text,
    PRIMARY KEY (id, bucket)
) PARTITION BY RANGE (bucket);

CREATE TABLE gandy.metadata_live PARTITION OF gandy.metadata FOR VALUES FROM ('infinity') TO (MAXVALUE)
    WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
          autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ix_metadata_live_deadline ON gandy.metadata_live (deadline_at) WHERE train_state = 'in_progress';
CREATE INDEX ix_metadata_live_group ON gandy.metadata_live (manifest_group_id);
CREATE INDEX ix_metadata_live_pending ON gandy.metadata_live (owner, rank DESC, id) WHERE train_state = 'pending';

CREATE TABLE gandy.metadata_rowwise PARTITION OF gandy.metadata FOR VALUES FROM (MINVALUE) TO ('1900-01-01');
CREATE INDEX ix_metadata_rowwise_keep_until ON gandy.metadata_rowwise (keep_until, id);
CREATE INDEX ix_metadata_rowwise_name ON gandy.metadata_rowwise (name, start_time);
CREATE INDEX ix_metadata_rowwise_manifest ON gandy.metadata_rowwise (manifest_id, id) WHERE manifest_id IS NOT NULL;
CREATE INDEX ix_metadata_rowwise_unsuccessful ON gandy.metadata_rowwise (train_state, id)
    WHERE train_state <> 'completed';

CREATE SEQUENCE gandy.log_id AS bigint CACHE 100;
CREATE TABLE gandy.log (
    id          bigint NOT NULL DEFAULT nextval('gandy.log_id'),
    bucket      date NOT NULL,
    metadata_id bigint NOT NULL,
    created_at  timestamptz NOT NULL,
    level       text NOT NULL CHECK (level IN ('debug', 'info', 'warning', 'error', 'critical')),
    logger      text NOT NULL,
    message     text NOT NULL
) PARTITION BY RANGE (bucket);
CREATE INDEX ix_log_metadata ON gandy.log (metadata_id, id);

CREATE TABLE gandy.log_live PARTITION OF gandy.log FOR VALUES FROM ('infinity') TO (MAXVALUE);
CREATE TABLE gandy.log_rowwise PARTITION OF gandy.log FOR VALUES FROM (MINVALUE) TO ('1900-01-01');

-- The days that have partitions: since <= day < until. A run that expires on another day is kept by row.
CREATE TABLE gandy.history_horizon (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    since   date NOT NULL,
    until   date NOT NULL
);

-- Creates the tables of one day, then attaches them: CREATE ... PARTITION OF would make inserts wait for readers.
CREATE FUNCTION gandy.add_history_day(day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    leaf   text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['metadata', 'log'] LOOP
        leaf := parent || to_char(day, '_YYYYMMDD');
        CONTINUE WHEN to_regclass('gandy.' || leaf) IS NOT NULL;
        EXECUTE format('CREATE TABLE gandy.%I (LIKE gandy.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', leaf, parent);
        EXECUTE format('ALTER TABLE gandy.%I ADD CONSTRAINT bucket_day CHECK (bucket IS NOT NULL AND bucket >= %L AND bucket < %L)',
                       leaf, day, day + 1);
        IF parent = 'metadata' THEN
            EXECUTE format('ALTER TABLE gandy.%I ADD PRIMARY KEY (id, bucket)', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (name, start_time)', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (manifest_id, id) WHERE manifest_id IS NOT NULL', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (train_state, id) WHERE train_state <> ''completed''', leaf);
        ELSE
            EXECUTE format('CREATE INDEX ON gandy.%I (metadata_id, id)', leaf);
        END IF;
        EXECUTE format('ALTER TABLE gandy.%I ATTACH PARTITION gandy.%I FOR VALUES FROM (%L) TO (%L)',
                       parent, leaf, day, day + 1);
        EXECUTE format('ALTER TABLE gandy.%I DROP CONSTRAINT bucket_day', leaf);
    END LOOP;
END $$;

DO $$
BEGIN
    FOR ahead IN 0..33 LOOP
        PERFORM gandy.add_history_day((gandy.now() AT TIME ZONE 'UTC')::date + ahead);
    END LOOP;
END $$;
INSERT INTO gandy.history_horizon (since, until)
VALUES ((gandy.now() AT TIME ZONE 'UTC')::date, (gandy.now() AT TIME ZONE 'UTC')::date + 34);

CREATE TABLE gandy.dead_letter (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner               text NOT NULL,
    manifest_id         bigint REFERENCES gandy.manifest,
    manifest_group_id   bigint NOT NULL,
    train_name          text NOT NULL,
    input               json,
    input_type_name     text,
    metadata_id         bigint NOT NULL,
    due_at              timestamptz,
    attempt             integer NOT NULL DEFAULT 1,
    priority            smallint NOT NULL DEFAULT 0,
    status              text NOT NULL DEFAULT 'awaiting_intervention'
        CHECK (status IN ('awaiting_intervention', 'retried', 'acknowledged')),
    reason              text NOT NULL,
    evidence            json,
    max_retries         integer,
    is_retried          boolean,
    retry_delay_seconds double precision,
    timeout_seconds     double precision,
    dead_lettered_at    timestamptz NOT NULL DEFAULT gandy.now(),
    resolved_at         timestamptz,
    resolved_by         text,
    resolution_note     text,
    retry_metadata_id   bigint
);
CREATE UNIQUE INDEX ix_dead_letter_unique_awaiting ON gandy.dead_letter (manifest_id)
    WHERE status = 'awaiting_intervention' AND manifest_id IS NOT NULL;
CREATE INDEX ix_dead_letter_manifest ON gandy.dead_letter (manifest_id, id) WHERE manifest_id IS NOT NULL;
CREATE INDEX ix_dead_letter_awaiting ON gandy.dead_letter (owner, train_name, id) WHERE status = 'awaiting_intervention';
CREATE INDEX ix_dead_letter_resolved ON gandy.dead_letter (resolved_at, id) WHERE status <> 'awaiting_intervention';
CREATE INDEX ix_dead_letter_retry ON gandy.dead_letter (retry_metadata_id) WHERE retry_metadata_id IS NOT NULL;

-- The lease belongs to the worker: one row renewed, not one per run.
CREATE TABLE gandy.worker (
    id               text PRIMARY KEY,
    owner            text NOT NULL,
    host             text NOT NULL,
    pid              integer NOT NULL,
    version          text NOT NULL,
    started_at       timestamptz NOT NULL,
    last_seen_at     timestamptz NOT NULL,
    lease_expires_at timestamptz NOT NULL,
    slots            integer NOT NULL,
    busy             integer NOT NULL DEFAULT 0,
    trains           text[] NOT NULL DEFAULT '{}',
    state            text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'draining', 'stopped', 'lost')),
    longest_stall_seconds double precision NOT NULL DEFAULT 0,
    stalled_junction text
) WITH (fillfactor = 50);
CREATE INDEX ix_worker_lease ON gandy.worker (lease_expires_at) WHERE state IN ('running', 'draining');
CREATE INDEX ix_worker_gone ON gandy.worker (last_seen_at) WHERE state IN ('stopped', 'lost');

-- A partial index cannot test the clock, so uniqueness of ad-hoc work is a table.
CREATE TABLE gandy.unique_key (
    owner      text NOT NULL,
    key        text NOT NULL,
    holder_id  bigint NOT NULL,
    held_until text NOT NULL CHECK (held_until IN ('start', 'success', 'expiry')),
    expires_at timestamptz,
    PRIMARY KEY (owner, key)
);
CREATE INDEX ix_unique_key_holder ON gandy.unique_key (holder_id);
CREATE INDEX ix_unique_key_expires ON gandy.unique_key (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE gandy.audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT gandy.now(),
    owner   text NOT NULL,
    actor   text NOT NULL,
    face    text NOT NULL CHECK (face IN ('python', 'cli', 'api', 'dashboard', 'service')),
    action  text NOT NULL,
    subject text NOT NULL,
    detail  json
);
CREATE INDEX ix_audit_at ON gandy.audit (at, id);

-- State that services keep between cycles: positions of slow passes, counts of dropped letters.
CREATE TABLE gandy.service_state (
    owner      text NOT NULL,
    key        text NOT NULL,
    value      json NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT gandy.now(),
    PRIMARY KEY (owner, key)
);
CREATE INDEX ix_service_state_updated ON gandy.service_state (updated_at, key);

-- The input of a decision about a manifest, with flags computed in the database; read-only.
CREATE VIEW gandy.manifest_dispatch AS
SELECT m.id, m.external_id, m.owner, m.name AS train, m.manifest_group_id AS group_id,
       m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.scheduled_at, p.external_id AS parent,
       m.next_scheduled_run, m.next_look_at, m.priority, g.priority AS group_priority,
       m.exclusions, m.variance_seconds, m.misfire_policy, m.misfire_threshold_seconds,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.orphaned_at IS NOT NULL AS is_orphaned,
       greatest(m.enabled_at, g.enabled_at) AS enabled_at, m.last_skip_reason,
       m.failure_count, m.success_count, m.max_retries, m.is_retried,
       EXISTS (SELECT 1 FROM gandy.dead_letter l
               WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS has_awaiting_dead_letter,
       (SELECT q.origin FROM gandy.work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued') AS queued_origin,
       m.active_run_id IS NOT NULL AS has_active_execution,
       m.last_successful_run_id IS NOT NULL AS has_successful_metadata, m.completed_at,
       m.depends_on_manifest_id AS parent_id, coalesce(p.is_enabled, true) AS is_parent_enabled,
       p.last_successful_run_id IS NOT NULL AS has_parent_succeeded,
       coalesce(p.success_count, 0) AS parent_success_count, m.parent_success_seen,
       m.xmin::text AS version  -- for optimistic locking: any write in between makes the decision stale
FROM gandy.manifest m
JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
-- LATERAL forces a probe: a plan for many rows must not read all manifests to find a few parents
LEFT JOIN LATERAL (
    SELECT external_id, is_enabled, last_successful_run_id, success_count
    FROM gandy.manifest WHERE id = m.depends_on_manifest_id LIMIT 1) p ON true;
