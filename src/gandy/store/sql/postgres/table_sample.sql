-- name: write_samples
-- The first sample of a day is kept for longer than the others.
INSERT INTO gandy.table_sample (owner, scheduler, table_name, at, is_daily, rows, bytes, lag_seconds)
SELECT %(owner)s, %(scheduler)s, s.table_name, now,
       NOT EXISTS (
           SELECT 1 FROM gandy.table_sample t
           WHERE t.owner = %(owner)s AND t.scheduler = %(scheduler)s AND t.table_name = s.table_name
             AND t.at >= date_trunc('day', now, 'UTC') AND t.at <= now),
       s.rows, s.bytes, s.lag_seconds
FROM gandy.now() AS now,
     unnest(%(table_name)s::text[], %(rows)s::bigint[], %(bytes)s::bigint[], %(lag_seconds)s::float8[])
         AS s(table_name, rows, bytes, lag_seconds)
ON CONFLICT DO NOTHING;

-- name: list_samples
-- Of one application's tables and of those that all share, of hours or only of days; each table's oldest first.
SELECT owner, scheduler, table_name AS table, at, rows, bytes, lag_seconds
FROM gandy.table_sample
WHERE owner IN ('', %(owner)s) AND at >= %(since)s AND (is_daily OR NOT %(is_daily)s::boolean)
ORDER BY scheduler, table_name, at LIMIT %(limit)s;

-- name: can_measure
-- Whether measure_tables is cheap: the catalogue always is.
SELECT %(largest)s::bigint >= 0 AS is_there;
