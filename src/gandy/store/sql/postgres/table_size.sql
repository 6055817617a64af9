-- name: find_oldest_rows
-- The oldest row of each table that can be ordered by age.
(SELECT 'manifest_group' AS name, created_at AS at FROM gandy.manifest_group ORDER BY id LIMIT 1)
UNION ALL
(SELECT 'manifest' AS name, created_at AS at FROM gandy.manifest ORDER BY id LIMIT 1)
UNION ALL
(SELECT 'work_queue' AS name, created_at AS at FROM gandy.work_queue ORDER BY id LIMIT 1)
UNION ALL
(SELECT 'metadata' AS name, created_at AS at FROM gandy.history ORDER BY id LIMIT 1)
UNION ALL
(SELECT 'log' AS name, created_at AS at FROM gandy.log ORDER BY metadata_id, id LIMIT 1)
UNION ALL
(SELECT 'dead_letter' AS name, dead_lettered_at AS at FROM gandy.dead_letter ORDER BY id LIMIT 1)
UNION ALL
(SELECT 'worker' AS name, started_at AS at FROM gandy.worker ORDER BY started_at LIMIT 1)
UNION ALL
(SELECT 'audit' AS name, at AS at FROM gandy.audit ORDER BY at, id LIMIT 1)
UNION ALL
(SELECT 'service_state' AS name, updated_at AS at FROM gandy.service_state ORDER BY updated_at, key LIMIT 1);

-- name: sample_arrivals
-- The newest rows of each table that can be ordered by age: how many are from the last hour, and the age of the oldest.
SELECT 'manifest_group' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy.now() - interval '1 hour') AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM gandy.manifest_group ORDER BY id DESC LIMIT %(sampled)s) n
UNION ALL
SELECT 'manifest' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy.now() - interval '1 hour') AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM gandy.manifest ORDER BY id DESC LIMIT %(sampled)s) n
UNION ALL
SELECT 'work_queue' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy.now() - interval '1 hour') AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM gandy.work_queue ORDER BY id DESC LIMIT %(sampled)s) n
UNION ALL
SELECT 'metadata' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy.now() - interval '1 hour') AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM gandy.history ORDER BY id DESC LIMIT %(sampled)s) n
UNION ALL
SELECT 'log' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy.now() - interval '1 hour') AS fresh, min(n.at) AS oldest_at
FROM (SELECT created_at AS at FROM gandy.log ORDER BY metadata_id DESC, id DESC LIMIT %(sampled)s) n
UNION ALL
SELECT 'dead_letter' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy.now() - interval '1 hour') AS fresh, min(n.at) AS oldest_at
FROM (SELECT dead_lettered_at AS at FROM gandy.dead_letter ORDER BY id DESC LIMIT %(sampled)s) n
UNION ALL
SELECT 'worker' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy.now() - interval '1 hour') AS fresh, min(n.at) AS oldest_at
FROM (SELECT started_at AS at FROM gandy.worker ORDER BY started_at DESC LIMIT %(sampled)s) n
UNION ALL
SELECT 'audit' AS name, count(*) AS seen, count(*) FILTER (WHERE n.at >= gandy.now() - interval '1 hour') AS fresh, min(n.at) AS oldest_at
FROM (SELECT at AS at FROM gandy.audit ORDER BY id DESC LIMIT %(sampled)s) n;

-- name: measure_tables
-- Sizes and row estimates of the catalogue; a partitioned table is the sum of its partitions, and history goes by the name of
-- its view.
SELECT CASE coalesce(p.relname, c.relname) WHEN 'history' THEN 'metadata' ELSE coalesce(p.relname, c.relname) END AS name, sum(greatest(c.reltuples, 0))::bigint AS rows,
       sum(pg_total_relation_size(c.oid))::bigint AS bytes
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
LEFT JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
WHERE c.relnamespace = 'gandy'::regnamespace AND c.relkind = 'r'
GROUP BY 1;

-- name: list_upkeep
-- Recent runs of the pruning trains, which are written when they have ended.
SELECT r.name AS train, r.train_state AS state, r.output, r.failure_reason, r.end_time
FROM gandy.history r
WHERE r.name = ANY(%(trains)s::text[]) AND r.start_time >= gandy.now() - interval '1 hour' AND r.owner = %(owner)s
ORDER BY r.start_time DESC LIMIT %(limit)s;
