-- name: read_horizon
-- The days that have partitions, and the day that it is.
SELECT since, until, (gandy.now() AT TIME ZONE 'UTC')::date AS today FROM gandy.history_horizon WHERE is_only;

-- name: set_session_clock
-- A test moves the clock of a connection that is in no transaction.
SELECT pg_catalog.set_config('gandy.now', %(now)s, false);

-- name: give_way_always
-- Changes of the layout lose to work, too.
SELECT set_config('lock_timeout', %(milliseconds)s::text, false);

-- name: try_lock_history
-- One server changes the layout at a time; the lock ends with the connection.
SELECT pg_try_advisory_lock(hashtext('gandy_history')) AS is_held;

-- name: close_past_days
-- Before a day is dropped no run is sent there any more; a gap after long neglect is left behind.
UPDATE gandy.history_horizon SET since = greatest(since, today), until = greatest(until, today)
FROM (SELECT (gandy.now() AT TIME ZONE 'UTC')::date AS today) t
WHERE is_only AND since < today;

-- name: add_history_day
-- Made and announced in one transaction: no run is sent to a day that is not there.
SELECT gandy.add_history_day(%(day)s::date);

-- name: open_history_day
-- Days follow each other without a gap.
UPDATE gandy.history_horizon SET until = %(day)s::date + 1 WHERE is_only AND until = %(day)s::date RETURNING until;

-- name: find_past_leaves
-- The partitions of days that are over, and the command that each needs next: what was cut short goes on where it stopped.
SELECT leaf.relname::text AS leaf, to_date(right(leaf.relname, 8), 'YYYYMMDD') AS day,
       split_part(leaf.relname, '_', 1) AS parent, link.inhrelid IS NULL AS is_detached,
       greatest(leaf.reltuples, 0)::bigint AS estimate,
       CASE WHEN link.inhrelid IS NULL THEN format('DROP TABLE gandy.%%I', leaf.relname)
            ELSE format('ALTER TABLE gandy.%%I DETACH PARTITION gandy.%%I %%s', split_part(leaf.relname, '_', 1),
                        leaf.relname, CASE WHEN link.inhdetachpending THEN 'FINALIZE' ELSE 'CONCURRENTLY' END)
       END AS command
FROM pg_class leaf JOIN pg_namespace space ON space.oid = leaf.relnamespace AND space.nspname = 'gandy'
LEFT JOIN pg_inherits link ON link.inhrelid = leaf.oid
WHERE leaf.relkind = 'r' AND leaf.relname ~ '^(log|metadata)_[0-9]{8}$'
  AND to_date(right(leaf.relname, 8), 'YYYYMMDD') < (gandy.now() AT TIME ZONE 'UTC')::date
  AND (%(leaf)s::text IS NULL OR leaf.relname = %(leaf)s::text)
ORDER BY link.inhdetachpending DESC NULLS LAST, day, leaf;

-- name: find_unfinished_on
-- A day is dropped only when no unfinished run is in it.
SELECT id FROM gandy.metadata WHERE bucket = %(day)s::date AND train_state IN ('pending', 'in_progress') LIMIT 1;

-- name: count_logs_on
-- Never analysed, so nothing estimates it.
SELECT count(*) AS rows FROM gandy.log WHERE bucket = %(day)s::date;

-- name: count_runs_on
-- Never analysed, so nothing estimates it.
SELECT count(*) AS rows FROM gandy.metadata WHERE bucket = %(day)s::date;

-- name: read_history
-- How far ahead days are made, what is left of past ones, and whether long-kept runs had to be kept by row.
SELECT h.since, h.until, today,
       (SELECT count(*) FROM pg_class leaf JOIN pg_namespace space ON space.oid = leaf.relnamespace
        WHERE space.nspname = 'gandy' AND leaf.relkind = 'r' AND leaf.relname ~ '^(log|metadata)_[0-9]{8}$'
          AND to_date(right(leaf.relname, 8), 'YYYYMMDD') < today) AS past_leaves,
       (SELECT count(*) FROM (SELECT 1 FROM gandy.metadata_rowwise
                              WHERE keep_until > gandy.now() + interval '1 day' LIMIT %(limit)s) r) AS kept_by_row
FROM gandy.history_horizon h, (SELECT (gandy.now() AT TIME ZONE 'UTC')::date AS today) t WHERE h.is_only;
