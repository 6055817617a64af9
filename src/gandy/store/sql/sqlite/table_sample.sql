-- name: write_samples
-- The first sample of a day is kept for longer than the others.
INSERT INTO table_sample (owner, scheduler, table_name, at, is_daily, rows, bytes, lag_seconds)
SELECT :owner, :scheduler, :table_name, gandy_now(),
       NOT EXISTS (
           SELECT 1 FROM table_sample t
           WHERE t.owner = :owner AND t.scheduler = :scheduler AND t.table_name = :table_name
             AND t.at >= substr(gandy_now(), 1, 10) AND t.at <= gandy_now()),
       :rows, :bytes, :lag_seconds
WHERE true
ON CONFLICT DO NOTHING;

-- name: list_samples
-- Of one application's tables and of those that all share, of hours or only of days; each table's oldest first.
SELECT owner, scheduler, table_name AS "table", at, rows, bytes, lag_seconds
FROM table_sample
WHERE owner IN ('', :owner) AND at >= :since AND (is_daily OR NOT :is_daily)
ORDER BY scheduler, table_name, at LIMIT :limit;

-- name: can_measure
-- Whether measure_tables works and is cheap: it reads every page of the file.
SELECT page_count * page_size <= :largest
       AND EXISTS (SELECT 1 FROM pragma_compile_options WHERE compile_options = 'ENABLE_DBSTAT_VTAB') AS is_there
FROM pragma_page_count, pragma_page_size;
