-- compatible_from: 4
-- Names do not depend on the caller's search_path: otherwise a role that can create objects in another schema could have
-- its own function or operator called instead of PostgreSQL's, with the privileges of the caller.
ALTER FUNCTION gandy.add_history_day(date) SET search_path = pg_catalog, pg_temp;

-- Objects of an earlier migration that ran under another search_path may already call such an object.
DO $$
DECLARE
    captured text;
BEGIN
    SELECT string_agg(DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid) || ' uses '
                      || pg_describe_object(d.refclassid, d.refobjid, 0), '; ')
    INTO captured
    FROM pg_depend d
    JOIN (SELECT 'pg_proc'::regclass AS class, oid, pronamespace AS space FROM pg_proc
          UNION ALL SELECT 'pg_operator'::regclass, oid, oprnamespace FROM pg_operator) used
      ON used.class = d.refclassid AND used.oid = d.refobjid
    WHERE used.space NOT IN ('pg_catalog'::regnamespace, 'gandy'::regnamespace)
      AND (d.classid, d.objid) IN (
          SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a JOIN pg_class c ON c.oid = a.adrelid
          WHERE c.relnamespace = 'gandy'::regnamespace
          UNION ALL SELECT 'pg_constraint'::regclass, oid FROM pg_constraint WHERE connamespace = 'gandy'::regnamespace
          UNION ALL SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relnamespace = 'gandy'::regnamespace
          UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE pronamespace = 'gandy'::regnamespace
          UNION ALL SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
          WHERE c.relnamespace = 'gandy'::regnamespace);
    IF captured IS NOT NULL THEN
        RAISE EXCEPTION 'objects of schema gandy use what is outside pg_catalog: %; drop these uses, then migrate', captured
            USING ERRCODE = 'invalid_object_definition';
    END IF;
END $$;
