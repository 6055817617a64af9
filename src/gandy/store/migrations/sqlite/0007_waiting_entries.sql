-- compatible_from: 4
-- An entry whose turn has not come has the status waiting, and the id that its run will have. Older code claims only queued
-- entries, so it never runs a waiting one; the manager's repair pass promotes entries that older code does not.
-- The new reason 'clock' is for instants that are withdrawn because a clock was wrong.
-- Differs from PostgreSQL: a constraint cannot be changed, so the table is rebuilt.
DROP VIEW manifest_dispatch;
CREATE TABLE work_queue_with_waiting (
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
        CHECK (status IN ('queued', 'waiting', 'dispatched', 'cancelled', 'skipped')),
    -- what holds a queued entry back: nothing, its instant, its manifest (active or disabled), a train without a worker
    gate                TEXT NOT NULL DEFAULT 'open' CHECK (gate IN ('open', 'time', 'manifest', 'train')),
    reason              TEXT CHECK (reason IN ('excluded', 'misfired', 'coalesced', 'active', 'already_queued',
                                               'dead_letter', 'disabled', 'clock', 'error')),
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
    input_digest        TEXT,                     -- of a waiting entry, with its manifest id; finds equal inputs
    CHECK (status <> 'skipped' OR reason IS NOT NULL)
) STRICT;

INSERT INTO work_queue_with_waiting (
    id, owner, external_id, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, status, gate, reason,
    error, origin, due_at, due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, settled_at,
    metadata_id, dead_letter_id, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failures, losses,
    lone_losses, unique_key, retry_of, parent_id)
SELECT
    id, owner, external_id, train_name, input, input_type_name, manifest_id, manifest_group_id, priority, status, gate, reason,
    error, origin, due_at, due_until, occurrences, attempt, scheduled_at, created_at, dispatched_at, settled_at,
    metadata_id, dead_letter_id, max_retries, is_retried, retry_delay_seconds, timeout_seconds, failures, losses,
    lone_losses, unique_key, retry_of, parent_id
FROM work_queue;
-- An id is never reused, even after the newest entries are deleted.
DELETE FROM sqlite_sequence WHERE name = 'work_queue_with_waiting';
INSERT INTO sqlite_sequence (name, seq) SELECT 'work_queue_with_waiting', seq FROM sqlite_sequence WHERE name = 'work_queue';
DROP TABLE work_queue;
ALTER TABLE work_queue_with_waiting RENAME TO work_queue;

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
