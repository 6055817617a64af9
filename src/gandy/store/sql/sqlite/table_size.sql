-- name: find_oldest_rows
-- The oldest row of each table that can be ordered by age.
SELECT * FROM (SELECT 'manifest_group' AS name, created_at AS at FROM manifest_group ORDER BY id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 'manifest' AS name, created_at AS at FROM manifest ORDER BY id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 'work_queue' AS name, created_at AS at FROM work_queue ORDER BY id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 'metadata' AS name, created_at AS at FROM history ORDER BY id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 'log' AS name, created_at AS at FROM log ORDER BY metadata_id, id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 'dead_letter' AS name, dead_lettered_at AS at FROM dead_letter ORDER BY id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 'worker' AS name, started_at AS at FROM worker ORDER BY started_at LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 'audit' AS name, at AS at FROM audit ORDER BY at, id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 'service_state' AS name, updated_at AS at FROM service_state ORDER BY updated_at, key LIMIT 1);

-- name: sample_arrivals
-- The newest rows of each table that can be ordered by age: how many are from the last hour, and the age of the oldest.
SELECT 'manifest_group' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy_later(-3600)) AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM manifest_group ORDER BY id DESC LIMIT :sampled) n
UNION ALL
SELECT 'manifest' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy_later(-3600)) AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM manifest ORDER BY id DESC LIMIT :sampled) n
UNION ALL
SELECT 'work_queue' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy_later(-3600)) AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM work_queue ORDER BY id DESC LIMIT :sampled) n
UNION ALL
SELECT 'metadata' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy_later(-3600)) AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM history ORDER BY id DESC LIMIT :sampled) n
UNION ALL
SELECT 'log' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy_later(-3600)) AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM log ORDER BY metadata_id DESC, id DESC LIMIT :sampled) n
UNION ALL
SELECT 'dead_letter' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy_later(-3600)) AS fresh, min(n.at) AS oldest_at
FROM (SELECT dead_lettered_at AS at FROM dead_letter ORDER BY id DESC LIMIT :sampled) n
UNION ALL
SELECT 'worker' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy_later(-3600)) AS fresh, min(n.at) AS oldest_at
FROM (SELECT started_at AS at FROM worker ORDER BY started_at DESC LIMIT :sampled) n
UNION ALL
SELECT 'audit' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy_later(-3600)) AS fresh, min(n.at) AS oldest_at
FROM (SELECT at AS at FROM audit ORDER BY id DESC LIMIT :sampled) n;

-- name: measure_tables
-- Sizes and rows from the pages of the file, all of which are read: only for a file that can_measure allows.
SELECT CASE m.tbl_name WHEN 'history' THEN 'metadata' ELSE m.tbl_name END AS name,
       coalesce(sum(s.ncell) FILTER (WHERE s.name = m.tbl_name AND s.pagetype = 'leaf'), 0) AS rows, sum(s.pgsize) AS bytes
FROM dbstat s JOIN sqlite_master m ON m.name = s.name
GROUP BY m.tbl_name;

-- name: list_upkeep
-- Recent runs of the pruning trains.
SELECT r.name AS train, r.train_state AS state, r.output, r.failure_reason, r.end_time
FROM history r
WHERE r.name IN (SELECT value FROM json_each(:trains)) AND r.start_time >= gandy_later(-3600) AND r.owner = :owner
ORDER BY r.start_time DESC LIMIT :limit;
