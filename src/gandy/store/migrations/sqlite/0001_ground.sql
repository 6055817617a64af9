-- compatible_from: 1
-- Gandy's tables. The manifest row is the lock and the cursor; history is only history:
-- nothing that decides whether something runs may depend on a row that cleanup deletes.

CREATE TABLE schema_version (
    version         INTEGER PRIMARY KEY,
    compatible_from INTEGER NOT NULL,           -- code older than this is refused
    applied_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

-- Every claim takes a fence; finishing, progress and logs are guarded by it.
CREATE TABLE sequence (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO sequence (name, value) VALUES ('fence', 0);

CREATE TABLE manifest_group (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    owner           TEXT NOT NULL,
    name            TEXT NOT NULL,
    max_active_jobs INTEGER CHECK (max_active_jobs > 0),
    priority        INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 31),
    is_enabled      INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    disabled_at     TEXT CHECK (disabled_at LIKE '____-__-__T__:__:__.______Z'),
    disabled_reason TEXT,
    enabled_at                TEXT CHECK (enabled_at LIKE '____-__-__T__:__:__.______Z'),
    declared        TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(declared)),  -- as the application declares it
    overrides       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(overrides)),  -- set by an operator; wins until cleared
    created_at      TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    updated_at      TEXT NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.______Z'),
    CONSTRAINT manifest_group_owner_name UNIQUE (owner, name)
) STRICT;

CREATE TABLE manifest (
    id                        INTEGER PRIMARY KEY AUTOINCREMENT,
    external_id               TEXT NOT NULL CONSTRAINT manifest_external_id UNIQUE,
    owner                     TEXT NOT NULL,
    name                      TEXT NOT NULL,     -- the train
    manifest_group_id         INTEGER NOT NULL REFERENCES manifest_group,
    properties                TEXT CHECK (properties IS NULL OR json_valid(properties)),              -- the train's input
    property_type_name        TEXT,
    schedule_type             TEXT NOT NULL
        CHECK (schedule_type IN ('none', 'cron', 'interval', 'once', 'dependent', 'dormant_dependent')),
    cron_expression           TEXT,
    interval_seconds          REAL CHECK (interval_seconds > 0),
    timezone                  TEXT NOT NULL DEFAULT 'UTC',
    scheduled_at              TEXT CHECK (scheduled_at LIKE '____-__-__T__:__:__.______Z'),       -- once: its instant
    depends_on_manifest_id    INTEGER REFERENCES manifest,
    variance_seconds          REAL NOT NULL DEFAULT 0 CHECK (variance_seconds >= 0),
    exclusions                TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(exclusions)),
    misfire_policy            TEXT NOT NULL DEFAULT 'fire_once_now'
        CHECK (misfire_policy IN ('fire_once_now', 'do_nothing', 'catch_up')),
    misfire_threshold_seconds REAL NOT NULL DEFAULT 60 CHECK (misfire_threshold_seconds >= 0),
    max_retries               INTEGER NOT NULL DEFAULT 3 CHECK (max_retries >= 0),
    is_retried                INTEGER NOT NULL DEFAULT 1 CHECK (is_retried IN (0, 1)),
    retry_delay_seconds       REAL CHECK (retry_delay_seconds >= 0),
    timeout_seconds           REAL CHECK (timeout_seconds > 0),
    priority                  INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 31),
    keep_for_seconds          REAL CHECK (keep_for_seconds >= 0),
    keep_last                 INTEGER CHECK (keep_last > 0),
    origin                    TEXT NOT NULL DEFAULT 'declared' CHECK (origin IN ('declared', 'runtime')),
    batch                     TEXT,              -- the schedule_many that made it
    is_enabled                INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    disabled_at               TEXT CHECK (disabled_at LIKE '____-__-__T__:__:__.______Z'),
    disabled_reason           TEXT,
    enabled_at                TEXT CHECK (enabled_at LIKE '____-__-__T__:__:__.______Z'),
    orphaned_at               TEXT CHECK (orphaned_at LIKE '____-__-__T__:__:__.______Z'),       -- no longer declared; removed a day later
    declared                  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(declared)),
    overrides                 TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(overrides)),
    -- the state that decides about runs, kept here so that history may be pruned
    next_scheduled_run        TEXT CHECK (next_scheduled_run LIKE '____-__-__T__:__:__.______Z'),       -- the cursor: the next nominal instant without a verdict
    next_look_at              TEXT CHECK (next_look_at LIKE '____-__-__T__:__:__.______Z'),       -- when the manager has to look; null: when something changes
    failure_count             INTEGER NOT NULL DEFAULT 0,
    success_count             INTEGER NOT NULL DEFAULT 0,
    parent_success_seen       INTEGER NOT NULL DEFAULT 0,
    has_dependents_due        INTEGER NOT NULL DEFAULT 0 CHECK (has_dependents_due IN (0, 1)),
    active_run_id             INTEGER,
    last_run_id               INTEGER,
    last_failed_run_id        INTEGER,
    last_successful_run_id    INTEGER,
    last_successful_run       TEXT CHECK (last_successful_run LIKE '____-__-__T__:__:__.______Z'),
    completed_at              TEXT CHECK (completed_at LIKE '____-__-__T__:__:__.______Z'),       -- once: finished
    last_skip_id              INTEGER,            -- the verdict row that the next skip of the same kind extends
    last_skip_reason          TEXT,
    created_at                TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    updated_at                TEXT NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.______Z'),
    CHECK (schedule_type <> 'cron' OR cron_expression IS NOT NULL),
    CHECK (schedule_type <> 'interval' OR interval_seconds IS NOT NULL),
    CHECK (schedule_type NOT IN ('dependent', 'dormant_dependent') OR depends_on_manifest_id IS NOT NULL)
) STRICT;

-- The only index that a cycle reads: it has only manifests with a look.
CREATE INDEX ix_manifest_next_look ON manifest (next_look_at, manifest_group_id, priority, id)
    WHERE next_look_at IS NOT NULL;
CREATE INDEX ix_manifest_dependents_due ON manifest (id) WHERE has_dependents_due;
CREATE INDEX ix_manifest_depends_on ON manifest (depends_on_manifest_id)
    WHERE depends_on_manifest_id IS NOT NULL;
CREATE INDEX ix_manifest_group ON manifest (manifest_group_id, id);
CREATE INDEX ix_manifest_batch ON manifest (owner, batch, id);
CREATE INDEX ix_manifest_name ON manifest (name, external_id);
CREATE INDEX ix_manifest_disabled ON manifest (external_id) WHERE NOT is_enabled;
CREATE INDEX ix_manifest_orphaned ON manifest (orphaned_at, id) WHERE orphaned_at IS NOT NULL;
-- Without declared manifests: they stay until they are orphaned, and a walk would have to skip them.
CREATE INDEX ix_manifest_completed ON manifest (completed_at, id)
    WHERE completed_at IS NOT NULL AND origin = 'runtime';
CREATE INDEX ix_manifest_keep_last ON manifest (id) WHERE keep_last IS NOT NULL;

CREATE TABLE work_queue (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,  -- becomes the run's id
    owner               TEXT NOT NULL,
    external_id         TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    train_name          TEXT NOT NULL,
    input               TEXT CHECK (input IS NULL OR json_valid(input)),
    input_type_name     TEXT,
    manifest_id         INTEGER,
    manifest_group_id   INTEGER NOT NULL,
    priority            INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 31),
    status              TEXT NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'dispatched', 'cancelled', 'skipped')),
    -- what holds a queued entry back: nothing, its instant, its manifest (active or disabled), a train without a worker
    gate                TEXT NOT NULL DEFAULT 'open' CHECK (gate IN ('open', 'time', 'manifest', 'train')),
    reason              TEXT CHECK (reason IN ('excluded', 'misfired', 'coalesced', 'active', 'already_queued',
                                               'dead_letter', 'disabled', 'error')),
    error               TEXT,
    origin              TEXT NOT NULL
        CHECK (origin IN ('schedule', 'dependent', 'trigger', 'retry', 'ad_hoc', 'dormant', 'requeue')),
    rank                INTEGER NOT NULL GENERATED ALWAYS AS
        (min(31, priority + CASE WHEN origin = 'dependent' THEN 16 ELSE 0 END)) STORED,  -- the order of dispatch
    due_at              TEXT NOT NULL CHECK (due_at LIKE '____-__-__T__:__:__.______Z'),
    due_until           TEXT CHECK (due_until LIKE '____-__-__T__:__:__.______Z'),
    occurrences         INTEGER NOT NULL DEFAULT 1,
    attempt             INTEGER NOT NULL DEFAULT 1,
    scheduled_at        TEXT NOT NULL CHECK (scheduled_at LIKE '____-__-__T__:__:__.______Z'),
    created_at          TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    dispatched_at       TEXT CHECK (dispatched_at LIKE '____-__-__T__:__:__.______Z'),
    settled_at          TEXT CHECK (settled_at LIKE '____-__-__T__:__:__.______Z'),  -- when it was skipped or cancelled
    metadata_id         INTEGER,
    dead_letter_id      INTEGER,
    -- the policy of a job without a manifest, and the counts of its attempts
    max_retries         INTEGER CHECK (max_retries >= 0),
    is_retried          INTEGER CHECK (is_retried IN (0, 1)),
    retry_delay_seconds REAL CHECK (retry_delay_seconds >= 0),
    timeout_seconds     REAL CHECK (timeout_seconds > 0),
    failures            INTEGER NOT NULL DEFAULT 0,
    losses              INTEGER NOT NULL DEFAULT 0,   -- times it was lost with its worker after it had begun
    lone_losses         INTEGER NOT NULL DEFAULT 0,   -- the same, alone in a process of its own
    unique_key          TEXT,
    retry_of            INTEGER,                  -- the attempt before this one
    parent_id           INTEGER,                  -- the run that this one repeats
    CHECK (status <> 'skipped' OR reason IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX ix_work_queue_unique_queued_manifest ON work_queue (manifest_id)
    WHERE status = 'queued' AND manifest_id IS NOT NULL;
CREATE UNIQUE INDEX ix_work_queue_unique_occurrence ON work_queue (manifest_id, due_at, attempt)
    WHERE manifest_id IS NOT NULL;
-- The index of claims: groups by loose index scan, then the top of each.
CREATE INDEX ix_work_queue_ready ON work_queue (owner, manifest_group_id, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open';
-- An operator's trigger runs even if its group is disabled.
CREATE INDEX ix_work_queue_triggered ON work_queue (owner, manifest_group_id, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open' AND origin = 'trigger';
CREATE INDEX ix_work_queue_future ON work_queue (scheduled_at) WHERE status = 'queued' AND gate = 'time';
CREATE INDEX ix_work_queue_unknown_train ON work_queue (owner, train_name)
    WHERE status = 'queued' AND gate = 'train';
CREATE INDEX ix_work_queue_dispatched ON work_queue (dispatched_at) WHERE status = 'dispatched';
CREATE INDEX ix_work_queue_settled ON work_queue (status, coalesce(settled_at, created_at), id)
    WHERE status IN ('skipped', 'cancelled');
CREATE INDEX ix_work_queue_retry_of ON work_queue (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX ix_work_queue_dead_letter ON work_queue (dead_letter_id)
    WHERE dead_letter_id IS NOT NULL AND status = 'queued';

-- Runs without a queue entry reserve their ids here, too: an attempt has one id for its whole life.
INSERT INTO sqlite_sequence (name, seq) VALUES ('work_queue', 0);

-- Runs. Differs from PostgreSQL: SQLite has no partitions, so a run is updated in place and pruned by row.
CREATE TABLE metadata (
    id                        INTEGER PRIMARY KEY,
    owner                     TEXT NOT NULL,
    external_id               TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    name                      TEXT NOT NULL,      -- the train
    train_state               TEXT NOT NULL
        CHECK (train_state IN ('pending', 'in_progress', 'completed', 'failed', 'cancelled')),
    manifest_id               INTEGER,
    manifest_group_id         INTEGER,
    parent_id                 INTEGER,
    origin                    TEXT,
    rank                      INTEGER NOT NULL DEFAULT 0,
    due_at                    TEXT CHECK (due_at LIKE '____-__-__T__:__:__.______Z'),
    attempt                   INTEGER NOT NULL DEFAULT 1,
    input                     TEXT CHECK (input IS NULL OR json_valid(input)),
    output                    TEXT CHECK (output IS NULL OR json_valid(output)),
    created_at                TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    start_time                TEXT NOT NULL CHECK (start_time LIKE '____-__-__T__:__:__.______Z'),
    end_time                  TEXT CHECK (end_time LIKE '____-__-__T__:__:__.______Z'),
    keep_until                TEXT CHECK (keep_until LIKE '____-__-__T__:__:__.______Z'),
    deadline_at               TEXT CHECK (deadline_at LIKE '____-__-__T__:__:__.______Z'),        -- start_time plus the timeout
    failure_junction          TEXT,
    failure_exception         TEXT,
    failure_reason            TEXT,
    stack_trace               TEXT,
    cancellation_requested    INTEGER NOT NULL DEFAULT 0 CHECK (cancellation_requested IN (0, 1)),
    cancellation_reason       TEXT CHECK (cancellation_reason IN ('operator', 'timeout', 'shutdown', 'lease_lost', 'caller', 'run')),
    cancellation_requested_at TEXT CHECK (cancellation_requested_at LIKE '____-__-__T__:__:__.______Z'),
    is_cancellation_ignored   INTEGER NOT NULL DEFAULT 0 CHECK (is_cancellation_ignored IN (0, 1)),
    currently_running_junction TEXT,
    junctions                 TEXT CHECK (junctions IS NULL OR json_valid(junctions)),               -- timings, in the row
    progress_done             INTEGER,
    progress_total            INTEGER,
    worker_id                 TEXT,
    fence                     INTEGER,
    delivery_attempts         INTEGER NOT NULL DEFAULT 0,
    deliver_after             TEXT CHECK (deliver_after LIKE '____-__-__T__:__:__.______Z'),
    delivery_error            TEXT
) STRICT;

CREATE INDEX ix_metadata_live_deadline ON metadata (deadline_at) WHERE train_state = 'in_progress';
CREATE INDEX ix_metadata_live_group ON metadata (manifest_group_id) WHERE train_state IN ('pending', 'in_progress');
CREATE INDEX ix_metadata_live_pending ON metadata (owner, rank DESC, id) WHERE train_state = 'pending';
CREATE INDEX ix_metadata_keep_until ON metadata (keep_until, id) WHERE keep_until IS NOT NULL;
CREATE INDEX ix_metadata_name ON metadata (name, start_time);
CREATE INDEX ix_metadata_manifest ON metadata (manifest_id, id) WHERE manifest_id IS NOT NULL;
CREATE INDEX ix_metadata_unsuccessful ON metadata (train_state, id) WHERE train_state <> 'completed';

CREATE TABLE log (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    metadata_id INTEGER NOT NULL,
    created_at  TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    level       TEXT NOT NULL CHECK (level IN ('debug', 'info', 'warning', 'error', 'critical')),
    logger      TEXT NOT NULL,
    message     TEXT NOT NULL
) STRICT;
CREATE INDEX ix_log_metadata ON log (metadata_id, id);

CREATE TABLE dead_letter (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    owner               TEXT NOT NULL,
    manifest_id         INTEGER REFERENCES manifest,
    manifest_group_id   INTEGER NOT NULL,
    train_name          TEXT NOT NULL,
    input               TEXT CHECK (input IS NULL OR json_valid(input)),
    input_type_name     TEXT,
    metadata_id         INTEGER NOT NULL,
    due_at              TEXT CHECK (due_at LIKE '____-__-__T__:__:__.______Z'),
    attempt             INTEGER NOT NULL DEFAULT 1,
    priority            INTEGER NOT NULL DEFAULT 0,
    status              TEXT NOT NULL DEFAULT 'awaiting_intervention'
        CHECK (status IN ('awaiting_intervention', 'retried', 'acknowledged')),
    reason              TEXT NOT NULL,
    evidence            TEXT CHECK (evidence IS NULL OR json_valid(evidence)),
    max_retries         INTEGER,
    is_retried          INTEGER CHECK (is_retried IN (0, 1)),
    retry_delay_seconds REAL,
    timeout_seconds     REAL,
    dead_lettered_at    TEXT NOT NULL CHECK (dead_lettered_at LIKE '____-__-__T__:__:__.______Z'),
    resolved_at         TEXT CHECK (resolved_at LIKE '____-__-__T__:__:__.______Z'),
    resolved_by         TEXT,
    resolution_note     TEXT,
    retry_metadata_id   INTEGER
) STRICT;
CREATE UNIQUE INDEX ix_dead_letter_unique_awaiting ON dead_letter (manifest_id)
    WHERE status = 'awaiting_intervention' AND manifest_id IS NOT NULL;
CREATE INDEX ix_dead_letter_manifest ON dead_letter (manifest_id, id) WHERE manifest_id IS NOT NULL;
CREATE INDEX ix_dead_letter_awaiting ON dead_letter (owner, train_name, id) WHERE status = 'awaiting_intervention';
CREATE INDEX ix_dead_letter_resolved ON dead_letter (resolved_at, id) WHERE status <> 'awaiting_intervention';
CREATE INDEX ix_dead_letter_retry ON dead_letter (retry_metadata_id) WHERE retry_metadata_id IS NOT NULL;

-- The lease belongs to the worker: one row renewed, not one per run.
CREATE TABLE worker (
    id               TEXT PRIMARY KEY,
    owner            TEXT NOT NULL,
    host             TEXT NOT NULL,
    pid              INTEGER NOT NULL,
    version          TEXT NOT NULL,
    started_at       TEXT NOT NULL CHECK (started_at LIKE '____-__-__T__:__:__.______Z'),
    last_seen_at     TEXT NOT NULL CHECK (last_seen_at LIKE '____-__-__T__:__:__.______Z'),
    lease_expires_at TEXT NOT NULL CHECK (lease_expires_at LIKE '____-__-__T__:__:__.______Z'),
    slots            INTEGER NOT NULL,
    busy             INTEGER NOT NULL DEFAULT 0,
    trains           TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(trains)),
    state            TEXT NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'draining', 'stopped', 'lost')),
    longest_stall_seconds REAL NOT NULL DEFAULT 0,
    stalled_junction TEXT
) STRICT;
CREATE INDEX ix_worker_lease ON worker (lease_expires_at) WHERE state IN ('running', 'draining');
CREATE INDEX ix_worker_gone ON worker (last_seen_at) WHERE state IN ('stopped', 'lost');

-- A partial index cannot test the clock, so uniqueness of ad-hoc work is a table.
CREATE TABLE unique_key (
    owner      TEXT NOT NULL,
    key        TEXT NOT NULL,
    holder_id  INTEGER NOT NULL,
    held_until TEXT NOT NULL CHECK (held_until IN ('start', 'success', 'expiry')),
    expires_at TEXT CHECK (expires_at LIKE '____-__-__T__:__:__.______Z'),
    PRIMARY KEY (owner, key)
) STRICT;
CREATE INDEX ix_unique_key_holder ON unique_key (holder_id);
CREATE INDEX ix_unique_key_expires ON unique_key (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      TEXT NOT NULL CHECK (at LIKE '____-__-__T__:__:__.______Z'),
    owner   TEXT NOT NULL,
    actor   TEXT NOT NULL,
    face    TEXT NOT NULL CHECK (face IN ('python', 'cli', 'api', 'dashboard', 'service')),
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT CHECK (detail IS NULL OR json_valid(detail))
) STRICT;
CREATE INDEX ix_audit_at ON audit (at, id);

-- State that services keep between cycles: positions of slow passes, counts of dropped letters.
CREATE TABLE service_state (
    owner      TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL CHECK (json_valid(value)),
    updated_at TEXT NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.______Z'),
    PRIMARY KEY (owner, key)
) STRICT;
CREATE INDEX ix_service_state_updated ON service_state (updated_at, key);

-- The input of a decision about a manifest, with flags computed in the database; read-only.
CREATE VIEW manifest_dispatch AS
SELECT m.id, m.external_id, m.owner, m.name AS train, m.manifest_group_id AS group_id,
       m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.scheduled_at, p.external_id AS parent,
       m.next_scheduled_run, m.next_look_at, m.priority, g.priority AS group_priority,
       m.exclusions, m.variance_seconds, m.misfire_policy, m.misfire_threshold_seconds,
       m.is_enabled, g.is_enabled AS is_group_enabled, m.orphaned_at IS NOT NULL AS is_orphaned,
       coalesce(max(m.enabled_at, g.enabled_at), m.enabled_at, g.enabled_at) AS enabled_at, m.last_skip_reason,
       m.failure_count, m.success_count, m.max_retries, m.is_retried,
       EXISTS (SELECT 1 FROM dead_letter l
               WHERE l.manifest_id = m.id AND l.status = 'awaiting_intervention') AS has_awaiting_dead_letter,
       (SELECT q.origin FROM work_queue q WHERE q.manifest_id = m.id AND q.status = 'queued') AS queued_origin,
       m.active_run_id IS NOT NULL AS has_active_execution,
       m.last_successful_run_id IS NOT NULL AS has_successful_metadata, m.completed_at,
       m.depends_on_manifest_id AS parent_id, coalesce(p.is_enabled, 1) AS is_parent_enabled,
       p.last_successful_run_id IS NOT NULL AS has_parent_succeeded,
       coalesce(p.success_count, 0) AS parent_success_count, m.parent_success_seen,
       '' AS version  -- there is only one writer at a time: no version check is needed
FROM manifest m
JOIN manifest_group g ON g.id = m.manifest_group_id
LEFT JOIN manifest p ON p.id = m.depends_on_manifest_id;
