-- name: catalogue
-- What a test may have changed beside rows; any difference, and the database is thrown away.
SELECT (SELECT count(*) FROM pg_class), (SELECT max(oid) FROM pg_class),
       (SELECT count(*) FROM pg_attribute), (SELECT count(*) FROM pg_constraint),
       (SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_proc), (SELECT max(oid) FROM pg_proc),
       (SELECT count(*) FROM pg_inherits WHERE inhdetachpending), (SELECT count(*) FROM pg_inherits),
       (SELECT count(*) FROM pg_statistic s JOIN pg_class c ON c.oid = s.starelid WHERE c.relnamespace = 'gandy'::regnamespace),
       (SELECT count(*) FROM pg_db_role_setting d JOIN pg_database b ON b.oid = d.setdatabase WHERE b.datname = current_database()),
       (SELECT since::text || until::text FROM gandy.history_horizon),
       (SELECT string_agg(version || ':' || compatible_from, ',') FROM gandy.schema_version)

-- name: hang_up
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()

-- name: wipe
-- Children before parents; sequences begin anew, so that no test depends on its neighbours.
DELETE FROM gandy.log;
DELETE FROM gandy.dead_letter;
DELETE FROM gandy.metadata;
DELETE FROM gandy.work_queue;
DELETE FROM gandy.unique_key;
DELETE FROM gandy.worker;
DELETE FROM gandy.audit;
DELETE FROM gandy.service_state;
UPDATE gandy.manifest SET depends_on_manifest_id = NULL, schedule_type = 'none' WHERE depends_on_manifest_id IS NOT NULL;
DELETE FROM gandy.manifest;
DELETE FROM gandy.manifest_group;
SELECT setval(s.oid, 1, false) FROM pg_class s WHERE s.relkind = 'S' AND s.relnamespace = 'gandy'::regnamespace
