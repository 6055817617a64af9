-- compatible_from: 4
-- Manifests belong to one application: external ids are unique per owner, and a manifest's parent and group have the same
-- owner. SQLite cannot drop a constraint, so the table is rebuilt; foreign keys are not enforced meanwhile.

-- A dependent of another application's manifest is switched off, with the reason.
UPDATE manifest SET
    disabled_reason = (SELECT 'it followed ' || p.external_id || ' of the application ' || p.owner || '; a manifest follows only those of its own application'
                       FROM manifest p WHERE p.id = manifest.depends_on_manifest_id),
    schedule_type = 'none', depends_on_manifest_id = NULL, is_enabled = 0, next_look_at = NULL,
    disabled_at = strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')
WHERE owner <> (SELECT p.owner FROM manifest p WHERE p.id = manifest.depends_on_manifest_id);

CREATE UNIQUE INDEX ix_manifest_group_owner ON manifest_group (id, owner);

DROP VIEW manifest_dispatch;
CREATE TABLE manifest_per_owner (
    id                        INTEGER PRIMARY KEY AUTOINCREMENT,
    external_id               TEXT NOT NULL,
    owner                     TEXT NOT NULL,
    name                      TEXT NOT NULL,     -- the train
    manifest_group_id         INTEGER NOT NULL,
    properties                TEXT CHECK (properties IS NULL OR json_valid(properties)),              -- the train's input
    property_type_name        TEXT,
    schedule_type             TEXT NOT NULL
        CHECK (schedule_type IN ('none', 'cron', 'interval', 'once', 'dependent', 'dormant_dependent')),
    cron_expression           TEXT,
    interval_seconds          REAL CHECK (interval_seconds > 0),
    timezone                  TEXT NOT NULL DEFAULT 'UTC',
    scheduled_at              TEXT CHECK (scheduled_at LIKE '____-__-__T__:__:__.______Z'),       -- once: its instant
    depends_on_manifest_id    INTEGER,
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
    CHECK (schedule_type NOT IN ('dependent', 'dormant_dependent') OR depends_on_manifest_id IS NOT NULL),
    CONSTRAINT manifest_owner_external_id UNIQUE (owner, external_id),
    CONSTRAINT manifest_owner_of_id UNIQUE (id, owner),
    FOREIGN KEY (manifest_group_id, owner) REFERENCES manifest_group (id, owner),
    FOREIGN KEY (depends_on_manifest_id, owner) REFERENCES manifest (id, owner)
) STRICT;

INSERT INTO manifest_per_owner (
    id, external_id, owner, name, manifest_group_id, properties, property_type_name, schedule_type, cron_expression,
    interval_seconds, timezone, scheduled_at, depends_on_manifest_id, variance_seconds, exclusions, misfire_policy,
    misfire_threshold_seconds, max_retries, is_retried, retry_delay_seconds, timeout_seconds, priority,
    keep_for_seconds, keep_last, origin, batch, is_enabled, disabled_at, disabled_reason, enabled_at, orphaned_at,
    declared, overrides, next_scheduled_run, next_look_at, failure_count, success_count, parent_success_seen,
    has_dependents_due, active_run_id, last_run_id, last_failed_run_id, last_successful_run_id, last_successful_run,
    completed_at, last_skip_id, last_skip_reason, created_at, updated_at)
SELECT
    id, external_id, owner, name, manifest_group_id, properties, property_type_name, schedule_type, cron_expression,
    interval_seconds, timezone, scheduled_at, depends_on_manifest_id, variance_seconds, exclusions, misfire_policy,
    misfire_threshold_seconds, max_retries, is_retried, retry_delay_seconds, timeout_seconds, priority,
    keep_for_seconds, keep_last, origin, batch, is_enabled, disabled_at, disabled_reason, enabled_at, orphaned_at,
    declared, overrides, next_scheduled_run, next_look_at, failure_count, success_count, parent_success_seen,
    has_dependents_due, active_run_id, last_run_id, last_failed_run_id, last_successful_run_id, last_successful_run,
    completed_at, last_skip_id, last_skip_reason, created_at, updated_at
FROM manifest;
-- An id is never reused, even after the newest manifests are deleted.
DELETE FROM sqlite_sequence WHERE name = 'manifest_per_owner';
INSERT INTO sqlite_sequence (name, seq) SELECT 'manifest_per_owner', seq FROM sqlite_sequence WHERE name = 'manifest';
DROP TABLE manifest;
ALTER TABLE manifest_per_owner RENAME TO manifest;


-- The only index that a cycle reads: it has only manifests with a look.
CREATE INDEX ix_manifest_next_look ON manifest (next_look_at, manifest_group_id, priority, id)
    WHERE next_look_at IS NOT NULL;
CREATE INDEX ix_manifest_dependents_due ON manifest (id) WHERE has_dependents_due;
CREATE INDEX ix_manifest_depends_on ON manifest (depends_on_manifest_id)
    WHERE depends_on_manifest_id IS NOT NULL;
CREATE INDEX ix_manifest_group ON manifest (manifest_group_id, id);
CREATE INDEX ix_manifest_batch ON manifest (owner, batch, id);
CREATE INDEX ix_manifest_name ON manifest (name, owner, external_id);
CREATE INDEX ix_manifest_disabled ON manifest (owner, external_id) WHERE NOT is_enabled;
CREATE INDEX ix_manifest_orphaned ON manifest (orphaned_at, id) WHERE orphaned_at IS NOT NULL;
-- Without declared manifests: they stay until they are orphaned, and a walk would have to skip them.
CREATE INDEX ix_manifest_completed ON manifest (completed_at, id)
    WHERE completed_at IS NOT NULL AND origin = 'runtime';
CREATE INDEX ix_manifest_keep_last ON manifest (id) WHERE keep_last IS NOT NULL;

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
