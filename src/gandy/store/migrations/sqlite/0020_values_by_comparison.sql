-- compatible_from: 18
-- SQLite builds the list of an IN with three or more values as a table, each time a statement runs: an enqueue spent a third of
-- its time on the lists of five constraints. Comparisons allow the same values. A constraint cannot be changed, so the table is
-- rebuilt, and the views that read it are made again.
DROP VIEW manifest_dispatch;
DROP VIEW metadata;
CREATE TABLE work_queue_by_comparison (
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
        CHECK (status = 'queued' OR status = 'waiting' OR status = 'dispatched' OR status = 'cancelled' OR status = 'skipped'),
    -- what holds a queued entry back: nothing, its instant, its manifest (active or disabled), a train without a worker
    gate                TEXT NOT NULL DEFAULT 'open'
        CHECK (gate = 'open' OR gate = 'time' OR gate = 'manifest' OR gate = 'train'),
    reason              TEXT
        CHECK (reason = 'excluded' OR reason = 'misfired' OR reason = 'coalesced' OR reason = 'active' OR
               reason = 'already_queued' OR reason = 'dead_letter' OR reason = 'disabled' OR reason = 'clock' OR
               reason = 'error'),
    error               TEXT,
    origin              TEXT NOT NULL
        CHECK (origin = 'schedule' OR origin = 'dependent' OR origin = 'trigger' OR origin = 'retry' OR origin = 'ad_hoc' OR
               origin = 'dormant' OR origin = 'requeue' OR origin = 'local'),
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
        CHECK (cancellation_reason = 'operator' OR cancellation_reason = 'timeout' OR cancellation_reason = 'shutdown' OR
               cancellation_reason = 'lease_lost' OR cancellation_reason = 'caller' OR cancellation_reason = 'run'),
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

INSERT INTO work_queue_by_comparison (
    id, owner, external_id, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, status, gate,
    reason, error, origin, due_at, due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, settled_at,
    metadata_id, dead_letter_id, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failures, losses,
    lone_losses, unique_key, retry_of, parent_id, input_digest, train_state, claim_rank, start_time, deadline_at,
    worker_id, fence, cancellation_requested, cancellation_reason, cancellation_requested_at, is_cancellation_ignored,
    currently_running_junction, progress_done, progress_total, delivery_attempts, deliver_after, delivery_error)
SELECT
    id, owner, external_id, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, status, gate,
    reason, error, origin, due_at, due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, settled_at,
    metadata_id, dead_letter_id, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failures, losses,
    lone_losses, unique_key, retry_of, parent_id, input_digest, train_state, claim_rank, start_time, deadline_at,
    worker_id, fence, cancellation_requested, cancellation_reason, cancellation_requested_at, is_cancellation_ignored,
    currently_running_junction, progress_done, progress_total, delivery_attempts, deliver_after, delivery_error
FROM work_queue;

-- An id is never reused, even after the newest entries are deleted.
DELETE FROM sqlite_sequence WHERE name = 'work_queue_by_comparison';
INSERT INTO sqlite_sequence (name, seq) SELECT 'work_queue_by_comparison', seq FROM sqlite_sequence WHERE name = 'work_queue';
DROP TABLE work_queue;
ALTER TABLE work_queue_by_comparison RENAME TO work_queue;

CREATE UNIQUE INDEX ix_work_queue_unique_queued_manifest ON work_queue (manifest_id)
    WHERE status = 'queued' AND manifest_id IS NOT NULL;
CREATE UNIQUE INDEX ix_work_queue_unique_occurrence ON work_queue (manifest_id, due_at, attempt)
    WHERE manifest_id IS NOT NULL;
CREATE INDEX ix_work_queue_ready ON work_queue (owner, manifest_group_id, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open';
CREATE INDEX ix_work_queue_triggered ON work_queue (owner, manifest_group_id, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open' AND origin = 'trigger';
CREATE INDEX ix_work_queue_unknown_train ON work_queue (owner, train_name)
    WHERE status = 'queued' AND gate = 'train';
CREATE INDEX ix_work_queue_settled ON work_queue (status, coalesce(settled_at, created_at), id)
    WHERE status IN ('skipped', 'cancelled');
CREATE INDEX ix_work_queue_retry_of ON work_queue (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX ix_work_queue_dead_letter ON work_queue (dead_letter_id)
    WHERE dead_letter_id IS NOT NULL AND status IN ('queued', 'waiting');
CREATE INDEX ix_work_queue_ready_train ON work_queue (owner, manifest_group_id, train_name, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open';
CREATE INDEX ix_work_queue_waiting ON work_queue (manifest_id, id) WHERE status = 'waiting';
CREATE INDEX ix_work_queue_waiting_trigger ON work_queue (manifest_id, id) WHERE status = 'waiting' AND origin = 'trigger';
CREATE INDEX ix_work_queue_waiting_input ON work_queue (input_digest) WHERE status = 'waiting';
CREATE INDEX ix_work_queue_live_pending ON work_queue (owner, claim_rank DESC, dispatched_at, id) WHERE train_state = 'pending';
CREATE INDEX ix_work_queue_live_run ON work_queue (train_state, owner, manifest_group_id) WHERE status = 'dispatched';
CREATE INDEX ix_work_queue_future ON work_queue (owner, scheduled_at) WHERE status = 'queued' AND gate = 'time';
CREATE INDEX ix_work_queue_held ON work_queue (owner, scheduled_at) WHERE status = 'queued' AND gate = 'manifest';
CREATE INDEX ix_work_queue_waiting_owner ON work_queue (owner, id) WHERE status = 'waiting';
CREATE INDEX ix_work_queue_settled_owner ON work_queue (owner, status, id) WHERE status IN ('skipped', 'cancelled');

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
       m.schedule_type, m.cron_expression, m.interval_seconds, m.timezone, m.scheduled_at,
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
       CASE WHEN m.schedule_type = 'dependent' THEN coalesce((
           SELECT min(d.ended > d.seen) FROM manifest_dependency d WHERE d.child_id = m.id), 0) ELSE 0 END AS has_ended_parents,
       CASE WHEN m.schedule_type = 'dependent' THEN coalesce((
           SELECT min(d.is_enabled) FROM manifest_dependency d WHERE d.child_id = m.id), 1) ELSE 1 END AS has_enabled_parents,
       '' AS version,  -- there is only one writer at a time: no version check is needed
       m.created_at, m.served_spans
FROM manifest m
JOIN manifest_group g ON g.id = m.manifest_group_id;
