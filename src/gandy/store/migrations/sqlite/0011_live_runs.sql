-- compatible_from: 11
-- A live run is its queue entry: a claim is one update, an end one delete and one insert into history. Stop all servers
-- before this migration; older code is refused afterwards.
-- Differs from PostgreSQL: a constraint cannot be changed, so the table is rebuilt.
DROP VIEW manifest_dispatch;
CREATE TABLE work_queue_with_runs (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,  -- becomes the run's id
    owner               TEXT NOT NULL,
    external_id         TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    train_name          TEXT NOT NULL,
    input               TEXT CHECK (input IS NULL OR json_valid(input)),
    input_type_name     TEXT,
    manifest_id         INTEGER,
    manifest_group_id   INTEGER,                  -- null: the caller started the run without an entry
    priority            INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 31),
    status              TEXT NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'waiting', 'dispatched', 'cancelled', 'skipped')),
    -- what holds a queued entry back: nothing, its instant, its manifest (active or disabled), a train without a worker
    gate                TEXT NOT NULL DEFAULT 'open' CHECK (gate IN ('open', 'time', 'manifest', 'train')),
    reason              TEXT CHECK (reason IN ('excluded', 'misfired', 'coalesced', 'active', 'already_queued',
                                               'dead_letter', 'disabled', 'clock', 'error')),
    error               TEXT,
    origin              TEXT NOT NULL
        CHECK (origin IN ('schedule', 'dependent', 'trigger', 'retry', 'ad_hoc', 'dormant', 'requeue', 'local')),
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
    input_digest        TEXT,                     -- of a waiting entry, with its manifest id; finds equal inputs
    -- the run, once it is dispatched
    train_state         TEXT CHECK (train_state IN ('pending', 'in_progress')),
    claim_rank          INTEGER,                  -- of a pending run: group priority first, then rank
    start_time          TEXT CHECK (start_time LIKE '____-__-__T__:__:__.______Z'),  -- the dispatch; once a worker starts it, the start
    deadline_at         TEXT CHECK (deadline_at LIKE '____-__-__T__:__:__.______Z'),  -- start_time plus the timeout
    worker_id           TEXT,
    fence               INTEGER,
    cancellation_requested    INTEGER NOT NULL DEFAULT 0 CHECK (cancellation_requested IN (0, 1)),
    cancellation_reason       TEXT
        CHECK (cancellation_reason IN ('operator', 'timeout', 'shutdown', 'lease_lost', 'caller', 'run')),
    cancellation_requested_at TEXT CHECK (cancellation_requested_at LIKE '____-__-__T__:__:__.______Z'),
    is_cancellation_ignored   INTEGER NOT NULL DEFAULT 0 CHECK (is_cancellation_ignored IN (0, 1)),
    currently_running_junction TEXT,
    progress_done       INTEGER,
    progress_total      INTEGER,
    delivery_attempts   INTEGER NOT NULL DEFAULT 0,
    deliver_after       TEXT CHECK (deliver_after LIKE '____-__-__T__:__:__.______Z'),
    delivery_error      TEXT,
    CHECK (status <> 'skipped' OR reason IS NOT NULL),
    CHECK ((status = 'dispatched') = (train_state IS NOT NULL)),
    CHECK (manifest_group_id IS NOT NULL OR origin = 'local')
) STRICT;


INSERT INTO work_queue_with_runs (
    id, owner, external_id, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, status, gate, reason,
    error, origin, due_at, due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, settled_at,
    metadata_id, dead_letter_id, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failures, losses,
    lone_losses, unique_key, retry_of, parent_id, input_digest,
    train_state, claim_rank, start_time, deadline_at, worker_id, fence, cancellation_requested, cancellation_reason,
    cancellation_requested_at, is_cancellation_ignored, currently_running_junction, progress_done, progress_total,
    delivery_attempts, deliver_after, delivery_error)
SELECT
    q.id, q.owner, q.external_id, q.train_name, q.input, q.input_type_name, q.manifest_id, q.manifest_group_id, q.priority, q.status, q.gate, q.reason,
    q.error, q.origin, q.due_at, q.due_until, q.occurrences, q.attempt, q.scheduled_at, q.created_at, q.dispatched_at, q.settled_at,
    q.metadata_id, q.dead_letter_id, q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds, q.failures, q.losses,
    q.lone_losses, q.unique_key, q.retry_of, q.parent_id, q.input_digest,
    r.train_state, CASE WHEN r.train_state = 'pending' THEN r.rank END, r.start_time, r.deadline_at, r.worker_id, r.fence,
    coalesce(r.cancellation_requested, 0), r.cancellation_reason, r.cancellation_requested_at,
    coalesce(r.is_cancellation_ignored, 0), r.currently_running_junction, r.progress_done, r.progress_total,
    coalesce(r.delivery_attempts, 0), r.deliver_after, r.delivery_error
FROM work_queue q
LEFT JOIN metadata r ON r.id = q.id AND q.status = 'dispatched' AND r.train_state IN ('pending', 'in_progress')
WHERE q.status <> 'dispatched' OR r.id IS NOT NULL;
-- Runs without an entry, which their callers started, get one.
INSERT INTO work_queue_with_runs (
    id, owner, external_id, train_name, input, status, origin, due_at, attempt, scheduled_at, created_at, dispatched_at,
    metadata_id, parent_id, is_retried, train_state, start_time, deadline_at, worker_id, fence, cancellation_requested,
    cancellation_reason, cancellation_requested_at, is_cancellation_ignored, currently_running_junction, progress_done,
    progress_total)
SELECT r.id, r.owner, r.external_id, r.name, r.input, 'dispatched', 'local', coalesce(r.due_at, r.created_at), r.attempt,
       coalesce(r.due_at, r.created_at), r.created_at, r.created_at, r.id, r.parent_id, 0, r.train_state, r.start_time,
       r.deadline_at, r.worker_id, r.fence, r.cancellation_requested, r.cancellation_reason, r.cancellation_requested_at,
       r.is_cancellation_ignored, r.currently_running_junction, r.progress_done, r.progress_total
FROM metadata r
WHERE r.train_state IN ('pending', 'in_progress') AND r.manifest_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM work_queue q WHERE q.id = r.id);

-- Ended runs. The policy of a job is known while its entry is there.
CREATE TABLE history (
    id                        INTEGER PRIMARY KEY,
    owner                     TEXT NOT NULL,
    external_id               TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    name                      TEXT NOT NULL,      -- the train
    train_state               TEXT NOT NULL CHECK (train_state IN ('completed', 'failed', 'cancelled')),
    manifest_id               INTEGER,
    manifest_group_id         INTEGER,
    parent_id                 INTEGER,
    retry_of                  INTEGER,            -- the attempt before this one
    dead_letter_id            INTEGER,
    origin                    TEXT,               -- null: the caller started it without a queue entry
    priority                  INTEGER NOT NULL DEFAULT 0,
    due_at                    TEXT CHECK (due_at LIKE '____-__-__T__:__:__.______Z'),
    scheduled_at              TEXT CHECK (scheduled_at LIKE '____-__-__T__:__:__.______Z'),  -- null: due_at
    attempt                   INTEGER NOT NULL DEFAULT 1,
    input                     TEXT CHECK (input IS NULL OR json_valid(input)),
    input_type_name           TEXT,
    output                    TEXT CHECK (output IS NULL OR json_valid(output)),
    created_at                TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    start_time                TEXT NOT NULL CHECK (start_time LIKE '____-__-__T__:__:__.______Z'),
    end_time                  TEXT NOT NULL CHECK (end_time LIKE '____-__-__T__:__:__.______Z'),
    keep_until                TEXT NOT NULL CHECK (keep_until LIKE '____-__-__T__:__:__.______Z'),
    max_retries               INTEGER,
    is_retried                INTEGER CHECK (is_retried IN (0, 1)),
    retry_delay_seconds       REAL,
    timeout_seconds           REAL,
    failure_junction          TEXT,
    failure_exception         TEXT,
    failure_reason            TEXT,
    stack_trace               TEXT,
    cancellation_requested    INTEGER NOT NULL DEFAULT 0 CHECK (cancellation_requested IN (0, 1)),
    cancellation_reason       TEXT,
    cancellation_requested_at TEXT CHECK (cancellation_requested_at LIKE '____-__-__T__:__:__.______Z'),
    is_cancellation_ignored   INTEGER NOT NULL DEFAULT 0 CHECK (is_cancellation_ignored IN (0, 1)),
    junctions                 TEXT CHECK (junctions IS NULL OR json_valid(junctions)),  -- timings
    progress_done             INTEGER,
    progress_total            INTEGER,
    worker_id                 TEXT,
    fence                     INTEGER
) STRICT;
INSERT INTO history (
    id, owner, external_id, name, train_state, manifest_id, manifest_group_id, parent_id, retry_of, dead_letter_id, origin,
    priority, due_at, scheduled_at, attempt, input, input_type_name, output, created_at, start_time, end_time, keep_until,
    max_retries, is_retried, retry_delay_seconds, timeout_seconds, failure_junction, failure_exception, failure_reason,
    stack_trace, cancellation_requested, cancellation_reason, cancellation_requested_at, is_cancellation_ignored, junctions,
    progress_done, progress_total, worker_id, fence)
SELECT r.id, r.owner, r.external_id, r.name, r.train_state, r.manifest_id, r.manifest_group_id, r.parent_id, q.retry_of,
       q.dead_letter_id, r.origin, coalesce(q.priority, r.rank), r.due_at, nullif(q.scheduled_at, r.due_at), r.attempt, r.input,
       q.input_type_name, r.output, r.created_at, r.start_time, coalesce(r.end_time, r.start_time),
       coalesce(r.keep_until, r.start_time), q.max_retries, q.is_retried, q.retry_delay_seconds, q.timeout_seconds,
       r.failure_junction, r.failure_exception, r.failure_reason, r.stack_trace, r.cancellation_requested,
       r.cancellation_reason, r.cancellation_requested_at, r.is_cancellation_ignored, r.junctions, r.progress_done,
       r.progress_total, r.worker_id, r.fence
FROM metadata r LEFT JOIN work_queue q ON q.id = r.id
WHERE r.train_state IN ('completed', 'failed', 'cancelled');

-- An id is never reused, even after the newest entries are deleted.
DELETE FROM sqlite_sequence WHERE name = 'work_queue_with_runs';
INSERT INTO sqlite_sequence (name, seq) SELECT 'work_queue_with_runs', seq FROM sqlite_sequence WHERE name = 'work_queue';
DROP INDEX ix_work_queue_dispatched;
DROP TABLE work_queue;
DROP INDEX ix_metadata_live_deadline;
DROP INDEX ix_metadata_live_group;
DROP INDEX ix_metadata_live_pending;
DROP INDEX ix_metadata_keep_until;
DROP INDEX ix_metadata_name;
DROP INDEX ix_metadata_manifest;
DROP INDEX ix_metadata_unsuccessful;
DROP TABLE metadata;
ALTER TABLE work_queue_with_runs RENAME TO work_queue;

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
CREATE INDEX ix_work_queue_settled ON work_queue (status, coalesce(settled_at, created_at), id)
    WHERE status IN ('skipped', 'cancelled');
CREATE INDEX ix_work_queue_retry_of ON work_queue (retry_of) WHERE retry_of IS NOT NULL;
-- A resolved letter is kept while its requeued entry is queued or waits.
CREATE INDEX ix_work_queue_dead_letter ON work_queue (dead_letter_id)
    WHERE dead_letter_id IS NOT NULL AND status IN ('queued', 'waiting');
-- A claim finds the groups and trains that have ready work by loose index scan.
CREATE INDEX ix_work_queue_ready_train ON work_queue (owner, manifest_group_id, train_name, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open';
-- Promotion reads the first waiting entry of a manifest, or the first trigger; the repair pass reads each manifest once.
CREATE INDEX ix_work_queue_waiting ON work_queue (manifest_id, id) WHERE status = 'waiting';
CREATE INDEX ix_work_queue_waiting_trigger ON work_queue (manifest_id, id) WHERE status = 'waiting' AND origin = 'trigger';
CREATE INDEX ix_work_queue_waiting_input ON work_queue (input_digest) WHERE status = 'waiting';
-- Live runs, which are few, in their order, by group, by deadline; pending ones in the order of claims.
CREATE INDEX ix_work_queue_live ON work_queue (id) WHERE status = 'dispatched';
CREATE INDEX ix_work_queue_live_group ON work_queue (manifest_group_id) WHERE status = 'dispatched';
CREATE INDEX ix_work_queue_live_deadline ON work_queue (deadline_at) WHERE train_state = 'in_progress';
CREATE INDEX ix_work_queue_live_pending ON work_queue (owner, claim_rank DESC, dispatched_at, id) WHERE train_state = 'pending';

CREATE INDEX ix_history_keep_until ON history (keep_until, id);
CREATE INDEX ix_history_name ON history (name, start_time);
CREATE INDEX ix_history_manifest ON history (manifest_id, id) WHERE manifest_id IS NOT NULL;
CREATE INDEX ix_history_unsuccessful ON history (train_state, id) WHERE train_state <> 'completed';
CREATE INDEX ix_history_retry_of ON history (retry_of) WHERE retry_of IS NOT NULL;

-- All runs, live and ended.
CREATE VIEW metadata AS
SELECT id, owner, external_id, name, train_state, manifest_id, manifest_group_id, parent_id, origin, due_at, attempt, input,
       output, created_at, start_time, end_time, keep_until, NULL AS deadline_at, failure_junction, failure_exception,
       failure_reason, stack_trace, cancellation_requested, cancellation_reason, cancellation_requested_at,
       is_cancellation_ignored, NULL AS currently_running_junction, junctions, progress_done, progress_total, worker_id, fence
FROM history
UNION ALL
SELECT id, owner, external_id, train_name, train_state, manifest_id, manifest_group_id, parent_id, nullif(origin, 'local'),
       due_at, attempt, input, NULL, dispatched_at, start_time, NULL, NULL, deadline_at, NULL, NULL, NULL, NULL,
       cancellation_requested, cancellation_reason, cancellation_requested_at, is_cancellation_ignored,
       currently_running_junction, NULL, progress_done, progress_total, worker_id, fence
FROM work_queue WHERE status = 'dispatched';

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
       '' AS version,  -- there is only one writer at a time: no version check is needed
       m.created_at, m.served_spans
FROM manifest m
JOIN manifest_group g ON g.id = m.manifest_group_id
LEFT JOIN manifest p ON p.id = m.depends_on_manifest_id;
