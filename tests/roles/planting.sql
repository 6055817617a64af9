-- name: functions
-- PostgreSQL's own functions of these names, each with the types of its arguments.
SELECT p.proname AS name, p.proretset AS is_set, p.pronargs - p.pronargdefaults AS fewest, r.typname AS result,
       p.provariadic <> 0 AS is_variadic, coalesce(p.proargnames, '{}') AS names,
       array(SELECT CASE t.typname WHEN 'char' THEN '"char"' ELSE t.typname END
             FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a(type, nth) JOIN pg_type t ON t.oid = a.type
             ORDER BY a.nth) AS types
FROM pg_proc p JOIN pg_type r ON r.oid = p.prorettype
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY(%s)
  AND r.typname NOT IN ('internal', 'cstring', 'trigger', 'event_trigger')
ORDER BY p.proname, p.oid;

-- name: operators
-- PostgreSQL's own operators of these names, and what each gives back.
SELECT DISTINCT ON (oprname) oprname, typname FROM pg_operator JOIN pg_type t ON t.oid = oprresult
WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprkind = 'b' AND oprname = ANY(%s)
ORDER BY oprname, oprresult <> 'bool'::regtype, oprresult <> 'timestamptz'::regtype;

-- name: relations
-- Tables and views of the catalogue that a role may read.
SELECT relname FROM pg_class
WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') AND relname = ANY(%s)
  AND relname NOT IN ('pg_attribute', 'pg_statistic');

-- name: called
-- The sequences that a call has moved on.
SELECT sequencename FROM pg_catalog.pg_sequences WHERE schemaname = 'marks' AND last_value IS NOT NULL;
