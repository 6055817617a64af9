-- compatible_from: 17
-- What a dependent has seen of each parent survives a change of its edge: an end that waits is not lost to a deploy, or to an
-- old server that starts again. Stop all servers before this migration; older code is refused afterwards, because it would
-- not keep these counts.

ALTER TABLE gandy.manifest_edge ADD COLUMN success_seen bigint NOT NULL DEFAULT 0;  -- the parent's counts when the child was
ALTER TABLE gandy.manifest_edge ADD COLUMN failure_seen bigint NOT NULL DEFAULT 0;  -- last queued, of every kind: the kind
ALTER TABLE gandy.manifest_edge ADD COLUMN end_seen bigint NOT NULL DEFAULT 0;      -- may change
-- What is not known of another kind counts as seen, except that a success or a failure is an end, too.
UPDATE gandy.manifest_edge e SET
    success_seen = CASE e.kind WHEN 'success' THEN e.seen ELSE p.success_count END,
    failure_seen = CASE e.kind WHEN 'failure' THEN e.seen ELSE p.final_failure_count END,
    end_seen = greatest(0, CASE e.kind WHEN 'end' THEN e.seen
                                       WHEN 'success' THEN p.end_count - greatest(p.success_count - e.seen, 0)
                                       WHEN 'failure' THEN p.end_count - greatest(p.final_failure_count - e.seen, 0)
                                       ELSE p.end_count END)
FROM gandy.manifest p WHERE p.id = e.parent_id;

-- Edges that are no longer declared, until they are declared again, or for a day.
CREATE TABLE gandy.manifest_former_edge (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    child_id         bigint NOT NULL REFERENCES gandy.manifest ON DELETE CASCADE,
    parent_id        bigint NOT NULL REFERENCES gandy.manifest ON DELETE CASCADE,
    success_seen     bigint NOT NULL,
    failure_seen     bigint NOT NULL,
    end_seen         bigint NOT NULL,
    output_seen      bigint,                   -- the success count of the last output that was taken; null: none was passed
    dropped_at       timestamptz NOT NULL,
    UNIQUE (child_id, parent_id)
);
CREATE INDEX ix_manifest_former_edge_parent ON gandy.manifest_former_edge (parent_id);
CREATE INDEX ix_manifest_former_edge_dropped ON gandy.manifest_former_edge (dropped_at, id);

-- Other roles may do with former edges what they may do with manifests.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT a.privilege_type AS privilege,
               CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'gandy.manifest'::regclass AND a.grantee <> c.relowner
          AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON gandy.manifest_former_edge TO %s', kept.privilege, kept.role);
    END LOOP;
END $$;
