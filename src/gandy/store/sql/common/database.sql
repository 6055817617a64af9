-- name: ping
-- Checks whether an idle connection is alive.
SELECT 1;

-- name: read_clock
-- The clock that all decisions use; on SQLite, registered on the connection.
SELECT gandy.now() AS now;

-- name: read_clock_and_newest
-- The same, and the id of the newest manifest.
SELECT gandy.now() AS now, coalesce((SELECT max(id) FROM gandy.manifest), 0) AS newest;

-- name: schema_version
-- The newest migration applied.
SELECT version, compatible_from FROM gandy.schema_version ORDER BY version DESC LIMIT 1;

-- name: record_migration
-- In the same transaction as the migration itself.
INSERT INTO gandy.schema_version (version, compatible_from) VALUES (:version, :compatible_from);

-- name: count_table_rows
-- Rows of each table, counted up to a limit; in index order, because other plans do not stop at the limit.
SELECT 'manifest_group' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.manifest_group ORDER BY id LIMIT :limit) manifest_group
UNION ALL
SELECT 'manifest' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.manifest ORDER BY id LIMIT :limit) manifest
UNION ALL
SELECT 'work_queue' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.work_queue ORDER BY id LIMIT :limit) work_queue
UNION ALL
SELECT 'metadata' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.history ORDER BY id LIMIT :limit) metadata
UNION ALL
SELECT 'log' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.log ORDER BY metadata_id, id LIMIT :limit) log
UNION ALL
SELECT 'dead_letter' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.dead_letter ORDER BY id LIMIT :limit) dead_letter
UNION ALL
SELECT 'worker' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.worker ORDER BY id LIMIT :limit) worker
UNION ALL
SELECT 'unique_key' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.unique_key ORDER BY owner, key LIMIT :limit) unique_key
UNION ALL
SELECT 'audit' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.audit ORDER BY id LIMIT :limit) audit
UNION ALL
SELECT 'audit_subject' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.audit_subject ORDER BY owner, subject, audit_id LIMIT :limit) audit_subject
UNION ALL
SELECT 'service_state' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.service_state ORDER BY owner, key LIMIT :limit) service_state
UNION ALL
SELECT 'web_key' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.web_key ORDER BY id LIMIT :limit) web_key
UNION ALL
SELECT 'run_tally' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.run_tally ORDER BY at, id LIMIT :limit) run_tally
UNION ALL
SELECT 'run_rollup' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.run_rollup ORDER BY grain, at, id LIMIT :limit) run_rollup
UNION ALL
SELECT 'table_sample' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.table_sample ORDER BY is_daily, at, id LIMIT :limit) table_sample
UNION ALL
SELECT 'payload_layout' AS name, count(*) AS rows FROM (SELECT 1 FROM gandy.payload_layout ORDER BY owner, train_name, digest LIMIT :limit) payload_layout;

-- name: recall
-- The value that an earlier cycle stored, in any process.
SELECT value FROM gandy.service_state WHERE owner = :owner AND key = :key;

-- name: forget
-- Delete a stored value.
DELETE FROM gandy.service_state WHERE owner = :owner AND key = :key;

-- name: estimate_rows
-- The tables that grow with the work, by their oldest and newest ids: an upper bound without a count.
SELECT 'work_queue' AS name, max(id) - min(id) + 1 AS rows FROM gandy.work_queue
UNION ALL
SELECT 'metadata', max(id) - min(id) + 1 FROM gandy.history
UNION ALL
SELECT 'dead_letter', max(id) - min(id) + 1 FROM gandy.dead_letter
UNION ALL
SELECT 'audit', max(id) - min(id) + 1 FROM gandy.audit
UNION ALL
SELECT 'run_rollup', max(id) - min(id) + 1 FROM gandy.run_rollup;
