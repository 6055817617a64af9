-- name: configure_session
-- Sequential scans and hash and merge joins are off: statistics of an empty hot table would make the planner scan its dead
-- rows. If another backend answers than the one of the handshake, there is a pooler: then the settings are local to this
-- statement, and configure_transaction sets them per transaction.
-- Until this has run, the role's own search_path applies: therefore all names here, even operators, have a schema.
SELECT pg_catalog.pg_backend_pid() AS backend,
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', is_pooled),
       pg_catalog.set_config('TimeZone', 'UTC', is_pooled),
       pg_catalog.set_config('array_nulls', 'on', is_pooled),
       pg_catalog.set_config('enable_seqscan', 'off', is_pooled),
       pg_catalog.set_config('enable_hashjoin', 'off', is_pooled),
       pg_catalog.set_config('enable_mergejoin', 'off', is_pooled),
       -- a single locked row must not block all others
       pg_catalog.set_config('lock_timeout', '2s', is_pooled),
       -- the high cost of a disabled scan would trigger JIT compilation of every plan
       pg_catalog.set_config('jit', 'off', is_pooled),
       -- a prepared statement is planned once: else its first five uses on each connection are, and a plan takes as long as
       -- tens of jobs; tests hold both kinds of plans to the same cost
       pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', is_pooled)
FROM (SELECT pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %(backend)s::int AS is_pooled) way;

-- name: configure_transaction
-- The same for one transaction: behind a pooler the next one may have another backend. Named rows need column names.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true) AS path,
       pg_catalog.set_config('TimeZone', 'UTC', true) AS zone,
       pg_catalog.set_config('array_nulls', 'on', true) AS nulls,
       pg_catalog.set_config('enable_seqscan', 'off', true) AS seqscan,
       pg_catalog.set_config('enable_hashjoin', 'off', true) AS hashjoin,
       pg_catalog.set_config('enable_mergejoin', 'off', true) AS mergejoin,
       pg_catalog.set_config('jit', 'off', true) AS jit, pg_catalog.set_config('lock_timeout', '2s', true) AS patience;

-- name: pin_names
-- For a transaction that reads or changes the schema: unqualified names mean PostgreSQL's own objects, ours are qualified.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- name: ask_listener
-- The backend that answers, and whether it is read-only; names are qualified, because no search_path is set here.
SELECT pg_catalog.pg_backend_pid() AS backend,
       pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'on' AS is_read_only;

-- name: keep_order
-- For a walk with a LIMIT: it must read along its index, and never collect and sort all rows first.
SELECT set_config('enable_sort', 'off', true) AS sort, set_config('enable_bitmapscan', 'off', true) AS bitmap;

-- name: listen
-- One channel for all wake-ups; the payload has the kind.
LISTEN gandy;

-- name: notify
-- PostgreSQL folds equal payloads of one transaction into one notification.
SELECT pg_notify('gandy', %(payload)s);

-- name: set_clock
-- Lets a test set the clock for one transaction.
SELECT pg_catalog.set_config('gandy.now', %(now)s, true);

-- name: try_lock
-- Never waits; the lock ends with the transaction.
SELECT pg_try_advisory_xact_lock(hashtext(%(name)s)) AS is_held;

-- name: lock_migrations
-- Serialises servers that migrate at the same time.
SELECT pg_advisory_xact_lock(hashtext('gandy_migrate'));

-- name: schema_exists
-- False before the first migration. Only a table counts: a view of that name is not Gandy's, and could call any function.
SELECT EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass('gandy.schema_version') AND relkind = 'r') AS is_there;

-- name: schema_owner
-- No row before the first migration, unless a role was given a schema of its own.
SELECT r.rolname::text AS owner, to_regclass('gandy.schema_version') IS NOT NULL AS is_migrated
FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'gandy';

-- name: list_missing_privileges
-- The requested privileges that the role of this connection lacks.
SELECT current_user::text AS role, w.object FROM unnest(%(objects)s::text[], %(privileges)s::text[]) AS w(object, privilege)
WHERE NOT CASE WHEN w.privilege = 'USAGE' THEN has_sequence_privilege('gandy.' || w.object, w.privilege)
               ELSE has_table_privilege('gandy.' || w.object, w.privilege) END;

-- name: list_takeover
-- Commands that make the role (its quoted name) the owner of all objects: only an owner can alter a table, and attach or
-- drop its partitions. Identity sequences and indexes follow their tables.
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
