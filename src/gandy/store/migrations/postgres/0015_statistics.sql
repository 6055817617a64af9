-- compatible_from: 14
-- Statistics of ended runs, and sizes of tables over time.

-- The sums of one process, for the runs of a train and a manifest that ended in one minute; merged into run_rollup afterwards.
CREATE TABLE gandy.run_tally (
    id                   bigint GENERATED ALWAYS AS IDENTITY,
    at                   timestamptz NOT NULL,       -- the minute
    owner                text NOT NULL,
    worker_id            text NOT NULL,              -- the worker, or one transaction that ended runs elsewhere
    train_name           text NOT NULL,
    manifest_id          bigint NOT NULL,            -- 0: runs without a manifest
    completed            bigint NOT NULL,
    failed               bigint NOT NULL,
    cancelled            bigint NOT NULL,
    longest_wait_seconds double precision NOT NULL,
    longest_seconds      double precision NOT NULL,
    waits                text NOT NULL,              -- a histogram: bucket:count, each followed by a blank
    durations            text NOT NULL,              -- the same
    PRIMARY KEY (owner, at, train_name, manifest_id, worker_id)
);
CREATE INDEX ix_run_tally_age ON gandy.run_tally (at, id);

-- The sums of all processes, for a minute, an hour and a day, of a train and of each of its manifests.
CREATE TABLE gandy.run_rollup (
    id                   bigint GENERATED ALWAYS AS IDENTITY,
    owner                text NOT NULL,
    scope                text NOT NULL CHECK (scope IN ('train', 'manifest')),
    grain                text NOT NULL CHECK (grain IN ('minute', 'hour', 'day')),
    at                   timestamptz NOT NULL,       -- its beginning
    train_name           text NOT NULL,
    manifest_id          bigint NOT NULL,            -- 0: all runs of the train
    completed            bigint NOT NULL,
    failed               bigint NOT NULL,
    cancelled            bigint NOT NULL,
    longest_wait_seconds double precision NOT NULL,
    longest_seconds      double precision NOT NULL,
    waits                text NOT NULL,              -- as in run_tally
    durations            text NOT NULL,
    PRIMARY KEY (owner, scope, grain, at, train_name, manifest_id)
);
CREATE INDEX ix_run_rollup_manifest ON gandy.run_rollup (manifest_id, grain, at);
CREATE INDEX ix_run_rollup_age ON gandy.run_rollup (grain, at, id);

CREATE TABLE gandy.table_sample (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    owner       text NOT NULL,                       -- empty: a table that all applications share
    scheduler   text NOT NULL,                       -- gandy, or the contract
    table_name  text NOT NULL,
    at          timestamptz NOT NULL,
    is_daily    boolean NOT NULL,                    -- the first sample of its day is kept for longer
    rows        bigint,                              -- an estimate
    bytes       bigint,
    lag_seconds double precision,                    -- how long the oldest expired row was overdue
    PRIMARY KEY (owner, scheduler, table_name, at)
);
CREATE INDEX ix_table_sample_age ON gandy.table_sample (is_daily, at, id);
