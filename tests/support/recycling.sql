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
-- Children before parents; sequences begin anew, so that no test depends on its neighbours. Of the partitions only those are
-- emptied that any test has written to: a new connection takes several times as long to look at each day and its indexes.
DO $$
DECLARE
    leaf regclass;
BEGIN
    FOR leaf IN SELECT oid FROM pg_class WHERE relnamespace = 'gandy'::regnamespace AND relkind = 'r' AND relispartition
                    AND pg_relation_size(oid) > 0 ORDER BY relname LOOP
        EXECUTE format('DELETE FROM %s', leaf);
    END LOOP;
END
$$;
DELETE FROM gandy.dead_letter;
DELETE FROM gandy.work_queue;
DELETE FROM gandy.unique_key;
DELETE FROM gandy.worker;
DELETE FROM gandy.audit;
DELETE FROM gandy.service_state;
DELETE FROM gandy.manifest_edge;
DELETE FROM gandy.manifest_former_edge;
DELETE FROM gandy.run_tally;
DELETE FROM gandy.run_rollup;
DELETE FROM gandy.table_sample;
UPDATE gandy.manifest SET depends_on_manifest_id = NULL, schedule_type = 'none' WHERE depends_on_manifest_id IS NOT NULL;
DELETE FROM gandy.manifest;
DELETE FROM gandy.manifest_group;
SELECT setval(s.oid, 1, false) FROM pg_class s WHERE s.relkind = 'S' AND s.relnamespace = 'gandy'::regnamespace

-- name: clear
-- All that an application made, in whatever schema; a test that did more is found by what is left.
DO $$
DECLARE
    mine record;
BEGIN
    FOR mine IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', mine.nspname);
    END LOOP;
    CREATE SCHEMA public AUTHORIZATION pg_database_owner;
    GRANT USAGE ON SCHEMA public TO PUBLIC;
END
$$

-- name: left
SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_type), (SELECT count(*) FROM pg_proc),
       (SELECT count(*) FROM pg_operator), (SELECT count(*) FROM pg_collation), (SELECT count(*) FROM pg_cast),
       (SELECT count(*) FROM pg_extension), (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_language),
       (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_foreign_server), (SELECT count(*) FROM pg_default_acl),
       (SELECT count(*) FROM pg_largeobject_metadata),
       (SELECT string_agg(nspname || coalesce(nspacl::text, ''), ',' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_t'),
       (SELECT coalesce(datacl::text, '') || datconnlimit || datallowconn FROM pg_database WHERE datname = current_database()),
       (SELECT count(*) FROM pg_db_role_setting d JOIN pg_database b ON b.oid = d.setdatabase WHERE b.datname = current_database())
