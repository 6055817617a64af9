-- name: read_horizon
-- The days that have partitions, and the current day.
SELECT since, until, (gandy.now() AT TIME ZONE 'UTC')::date AS today FROM gandy.history_horizon WHERE is_only;

-- name: set_session_clock
-- Lets a test set the clock of a connection outside transactions.
SELECT pg_catalog.set_config('gandy.now', %(now)s, false);

-- name: set_session_lock_timeout
-- Work has priority over changes of partitions, too: a short lock timeout for the session.
SELECT set_config('lock_timeout', %(milliseconds)s::text, false);

-- name: try_lock_history
-- One server changes partitions at a time; the lock ends with the connection.
SELECT pg_try_advisory_lock(hashtext('gandy_history')) AS is_held;

-- name: close_past_days
-- No run is assigned to a past day, before it is dropped; a gap of days that never got partitions is skipped.
UPDATE gandy.history_horizon SET since = greatest(since, today), until = greatest(until, today)
FROM (SELECT (gandy.now() AT TIME ZONE 'UTC')::date AS today) t
WHERE is_only AND since < today;

-- name: add_history_day
-- In one transaction with open_history_day: no run is assigned to a day without partitions.
SELECT gandy.add_history_day(%(day)s::date);

-- name: open_history_day
-- Only the next day, so that there are no gaps.
UPDATE gandy.history_horizon SET until = %(day)s::date + 1 WHERE is_only AND until = %(day)s::date RETURNING until;

-- name: forget_past_pieces
-- With its day, a piece is over.
DELETE FROM gandy.history_piece WHERE day < (gandy.now() AT TIME ZONE 'UTC')::date;

-- name: list_pieces
-- The pieces of history with their sizes, in the order in which they expire; also a current one that has no partitions.
SELECT coalesce(p.day, o.day) AS day, coalesce(p.number, o.piece) AS number, coalesce(p.bytes, 0) AS bytes,
       coalesce(p.number, o.piece) = coalesce(o.piece, c.piece, 0) AS is_current, p.day IS NOT NULL AS is_there
FROM (
    SELECT to_date(split_part(leaf.relname, '_', 2), 'YYYYMMDD') AS day,
           coalesce(nullif(split_part(leaf.relname, '_', 3), ''), '0')::int AS number,
           sum(pg_total_relation_size(leaf.oid))::bigint AS bytes
    FROM pg_class leaf JOIN pg_inherits link ON link.inhrelid = leaf.oid AND NOT link.inhdetachpending
    WHERE link.inhparent IN ('gandy.history'::regclass, 'gandy.log'::regclass) AND leaf.relname ~ '^(log|history)_[0-9]{8}(_[0-9]+)?$'
    GROUP BY 1, 2) p
FULL JOIN gandy.history_piece o ON o.day = p.day AND o.piece = p.number
LEFT JOIN gandy.history_piece c ON c.day = p.day
ORDER BY 1, 2;

-- name: add_history_piece
-- Ended runs go there after open_history_piece, in a later transaction.
SELECT gandy.add_history_piece(%(day)s::date, %(number)s::int);

-- name: open_history_piece
-- Ended runs go into this piece of the day from now on.
INSERT INTO gandy.history_piece AS p (day, piece) VALUES (%(day)s::date, %(number)s::smallint)
ON CONFLICT (day) DO UPDATE SET piece = excluded.piece, opened_at = excluded.opened_at WHERE p.piece < excluded.piece;

-- name: find_leaves
-- The partitions of past days, or those named, and the next command for each: an interrupted DETACH is finalized.
SELECT leaf.relname::text AS leaf, to_date(split_part(leaf.relname, '_', 2), 'YYYYMMDD') AS day,
       coalesce(nullif(split_part(leaf.relname, '_', 3), ''), '0')::int AS number,
       split_part(leaf.relname, '_', 1) AS parent, link.inhrelid IS NULL AS is_detached,
       greatest(leaf.reltuples, 0)::bigint AS estimate,
       CASE WHEN link.inhrelid IS NULL THEN format('DROP TABLE gandy.%%I', leaf.relname)
            ELSE format('ALTER TABLE gandy.%%I DETACH PARTITION gandy.%%I %%s', split_part(leaf.relname, '_', 1),
                        leaf.relname, CASE WHEN link.inhdetachpending THEN 'FINALIZE' ELSE 'CONCURRENTLY' END)
       END AS command
FROM pg_class leaf JOIN pg_namespace space ON space.oid = leaf.relnamespace AND space.nspname = 'gandy'
LEFT JOIN pg_inherits link ON link.inhrelid = leaf.oid
WHERE leaf.relkind = 'r' AND leaf.relname ~ '^(log|history)_[0-9]{8}(_[0-9]+)?$'
  AND CASE WHEN %(leaves)s::text[] IS NULL
           THEN to_date(split_part(leaf.relname, '_', 2), 'YYYYMMDD') < (gandy.now() AT TIME ZONE 'UTC')::date
           ELSE leaf.relname = ANY(%(leaves)s::text[]) END
ORDER BY link.inhdetachpending DESC NULLS LAST, day, number, leaf;

-- name: count_logs_on
-- For a partition without statistics, which has no estimate.
SELECT count(*) AS rows FROM gandy.log WHERE bucket = %(day)s::date AND piece = %(number)s::smallint;

-- name: count_runs_on
-- For a partition without statistics, which has no estimate.
SELECT count(*) AS rows FROM gandy.history WHERE bucket = %(day)s::date AND piece = %(number)s::smallint;

-- name: read_history
-- The days ahead, the remaining partitions of past days, and the long-kept runs that had to be kept by row.
SELECT h.since, h.until, today,
       (SELECT count(*) FROM pg_class leaf JOIN pg_namespace space ON space.oid = leaf.relnamespace
        WHERE space.nspname = 'gandy' AND leaf.relkind = 'r' AND leaf.relname ~ '^(log|history)_[0-9]{8}(_[0-9]+)?$'
          AND to_date(split_part(leaf.relname, '_', 2), 'YYYYMMDD') < today) AS past_leaves,
       (SELECT count(*) FROM (SELECT 1 FROM gandy.history_rowwise
                              WHERE keep_until > gandy.now() + interval '1 day' LIMIT %(limit)s) r) AS kept_by_row
FROM gandy.history_horizon h, (SELECT (gandy.now() AT TIME ZONE 'UTC')::date AS today) t WHERE h.is_only;
