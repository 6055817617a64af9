-- compatible_from: 14
-- Statistics of ended runs, and sizes of tables over time.

-- The sums of one process, for the runs of a train and a manifest that ended in one minute; merged into run_rollup afterwards.
CREATE TABLE run_tally (
    id                   INTEGER PRIMARY KEY,
    at                   TEXT NOT NULL CHECK (at LIKE '____-__-__T__:__:__.______Z'),  -- the minute
    owner                TEXT NOT NULL,
    worker_id            TEXT NOT NULL,              -- the worker, or one transaction that ended runs elsewhere
    train_name           TEXT NOT NULL,
    manifest_id          INTEGER NOT NULL,           -- 0: runs without a manifest
    completed            INTEGER NOT NULL,
    failed               INTEGER NOT NULL,
    cancelled            INTEGER NOT NULL,
    longest_wait_seconds REAL NOT NULL,
    longest_seconds      REAL NOT NULL,
    waits                TEXT NOT NULL,              -- a histogram: bucket:count, each followed by a blank
    durations            TEXT NOT NULL,              -- the same
    UNIQUE (owner, at, train_name, manifest_id, worker_id)
) STRICT;
CREATE INDEX ix_run_tally_age ON run_tally (at, id);

-- The sums of all processes, for a minute, an hour and a day, of a train and of each of its manifests.
CREATE TABLE run_rollup (
    id                   INTEGER PRIMARY KEY,
    owner                TEXT NOT NULL,
    scope                TEXT NOT NULL CHECK (scope IN ('train', 'manifest')),
    grain                TEXT NOT NULL CHECK (grain IN ('minute', 'hour', 'day')),
    at                   TEXT NOT NULL CHECK (at LIKE '____-__-__T__:__:__.______Z'),  -- its beginning
    train_name           TEXT NOT NULL,
    manifest_id          INTEGER NOT NULL,           -- 0: all runs of the train
    completed            INTEGER NOT NULL,
    failed               INTEGER NOT NULL,
    cancelled            INTEGER NOT NULL,
    longest_wait_seconds REAL NOT NULL,
    longest_seconds      REAL NOT NULL,
    waits                TEXT NOT NULL,              -- as in run_tally
    durations            TEXT NOT NULL,
    UNIQUE (owner, scope, grain, at, train_name, manifest_id)
) STRICT;
CREATE INDEX ix_run_rollup_manifest ON run_rollup (manifest_id, grain, at);
CREATE INDEX ix_run_rollup_age ON run_rollup (grain, at, id);

CREATE TABLE table_sample (
    id          INTEGER PRIMARY KEY,
    owner       TEXT NOT NULL,                       -- empty: a table that all applications share
    scheduler   TEXT NOT NULL,                       -- gandy, or the contract
    table_name  TEXT NOT NULL,
    at          TEXT NOT NULL CHECK (at LIKE '____-__-__T__:__:__.______Z'),
    is_daily    INTEGER NOT NULL CHECK (is_daily IN (0, 1)),  -- the first sample of its day is kept for longer
    rows        INTEGER,                             -- an estimate
    bytes       INTEGER,
    lag_seconds REAL,                                -- how long the oldest expired row was overdue
    UNIQUE (owner, scheduler, table_name, at)
) STRICT;
CREATE INDEX ix_table_sample_age ON table_sample (is_daily, at, id);
