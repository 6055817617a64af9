-- name: configure_session
-- Statistics taken while a hot table is empty would make the planner read all its dead rows: rows are reached by index.
-- Where another backend answers than the one that the connection was promised, a pooler stands between: then nothing
-- is left on that backend, and configure_transaction takes its place.
-- Until it has run, names are looked up as the role's own search_path says: here even operators have their schema.
SELECT pg_catalog.pg_backend_pid() AS backend,
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', is_pooled),
       pg_catalog.set_config('TimeZone', 'UTC', is_pooled),
       pg_catalog.set_config('enable_seqscan', 'off', is_pooled),
       pg_catalog.set_config('enable_hashjoin', 'off', is_pooled),
       pg_catalog.set_config('enable_mergejoin', 'off', is_pooled),
       -- one row that another holds must not keep all others waiting
       pg_catalog.set_config('lock_timeout', '2s', is_pooled),
       -- a forbidden scan has a price that would have every plan compiled
       pg_catalog.set_config('jit', 'off', is_pooled)
FROM (SELECT pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %(backend)s::int AS is_pooled) way;

-- name: configure_transaction
-- The same for one transaction: behind a pooler the next one has another backend. Rows are named, so columns are too.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true) AS path,
       pg_catalog.set_config('TimeZone', 'UTC', true) AS zone,
       pg_catalog.set_config('enable_seqscan', 'off', true) AS seqscan,
       pg_catalog.set_config('enable_hashjoin', 'off', true) AS hashjoin,
       pg_catalog.set_config('enable_mergejoin', 'off', true) AS mergejoin,
       pg_catalog.set_config('jit', 'off', true) AS jit, pg_catalog.set_config('lock_timeout', '2s', true) AS patience;

-- name: pin_names
-- For one transaction that reads or changes the schema: names mean PostgreSQL's own objects, and ours have their schema.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- name: ask_listener
-- Which backend answers, and whether it still takes writes; asked where no search_path was set.
SELECT pg_catalog.pg_backend_pid() AS backend,
       pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'on' AS is_read_only;

-- name: keep_order
-- For a walk that ends early: it must read along its index, and never gather and sort first.
SELECT set_config('enable_sort', 'off', true) AS sort, set_config('enable_bitmapscan', 'off', true) AS bitmap;

-- name: ping
-- Asks a silent connection whether it is still there.
SELECT 1;

-- name: listen
-- One channel for all wake-ups; the payload says which.
LISTEN gandy;

-- name: notify
-- PostgreSQL folds equal payloads of one transaction into one notification.
SELECT pg_notify('gandy', %(payload)s);

-- name: set_clock
-- A test moves the clock for one transaction.
SELECT pg_catalog.set_config('gandy.now', %(now)s, true);

-- name: read_clock
-- The one clock.
SELECT gandy.now() AS now;

-- name: try_lock
-- Answers at once; the lock ends with the transaction.
SELECT pg_try_advisory_xact_lock(hashtext(%(name)s)) AS is_held;

-- name: lock_migrations
-- Two servers that migrate at once do it one after the other.
SELECT pg_advisory_xact_lock(hashtext('gandy_migrate'));

-- name: schema_exists
-- Before the first migration there is nothing to ask. A view of that name is not ours, and could call anything.
SELECT EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass('gandy.schema_version') AND relkind = 'r') AS is_there;

-- name: schema_version
-- The newest migration applied.
SELECT version, compatible_from FROM gandy.schema_version ORDER BY version DESC LIMIT 1;

-- name: record_migration
-- In the same transaction as the migration itself.
INSERT INTO gandy.schema_version (version, compatible_from) VALUES (%(version)s, %(compatible_from)s);

-- name: schema_owner
-- No row before the first migration, unless a role was given a schema of its own.
SELECT r.rolname::text AS owner, to_regclass('gandy.schema_version') IS NOT NULL AS is_migrated
FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'gandy';

-- name: list_missing_privileges
-- What the role of this connection may not do, of what is asked for.
SELECT current_user::text AS role, w.object FROM unnest(%(objects)s::text[], %(privileges)s::text[]) AS w(object, privilege)
WHERE NOT CASE WHEN w.privilege = 'USAGE' THEN has_sequence_privilege('gandy.' || w.object, w.privilege)
               ELSE has_table_privilege('gandy.' || w.object, w.privilege) END;

-- name: list_takeover
-- What makes the role, whose name is quoted, the owner of all: only an owner changes a table, and attaches or drops its
-- partitions. Sequences of identity columns and indexes follow their tables.
SELECT format('CREATE SCHEMA gandy AUTHORIZATION %%s;', %(name)s::text) AS command WHERE to_regnamespace('gandy') IS NULL
UNION ALL
SELECT format('ALTER %%s %%s OWNER TO %%s;', o.kind, o.object, %(name)s::text) FROM (
    SELECT 'SCHEMA' AS kind, quote_ident(nspname) AS object, nspowner AS owner FROM pg_namespace
    WHERE nspname = 'gandy'
    UNION ALL
    SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
           format('gandy.%%I', c.relname), c.relowner
    FROM pg_class c WHERE c.relnamespace = to_regnamespace('gandy') AND c.relkind IN ('r', 'p', 'v', 'S')
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                      AND d.deptype = 'i' AND c.relkind = 'S')
    UNION ALL
    SELECT 'FUNCTION', format('gandy.%%I(%%s)', p.proname, pg_get_function_identity_arguments(p.oid)), p.proowner
    FROM pg_proc p WHERE p.pronamespace = to_regnamespace('gandy')) o
JOIN pg_roles r ON r.oid = o.owner
WHERE r.rolname <> %(role)s::text;
