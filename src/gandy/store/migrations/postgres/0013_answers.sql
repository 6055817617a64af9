-- compatible_from: 12
-- Indexes for what operators ask: who did what, what comes next, and which dead letter a run has left.

-- What each entry of the audit trail is about, so that a job, a letter or a manifest finds its part of bulk actions, too.
CREATE TABLE gandy.audit_subject (
    owner    text NOT NULL,
    subject  text NOT NULL,                      -- an id of a job, a manifest, a group..., or "dead letter" and its id
    audit_id bigint NOT NULL REFERENCES gandy.audit ON DELETE CASCADE,
    PRIMARY KEY (owner, subject, audit_id)
);
CREATE INDEX ix_audit_subject_audit ON gandy.audit_subject (audit_id);
CREATE INDEX ix_audit_owner ON gandy.audit (owner, id);
CREATE INDEX ix_audit_actor ON gandy.audit (owner, actor, id);

INSERT INTO gandy.audit_subject (owner, subject, audit_id) SELECT owner, subject, id FROM gandy.audit;
INSERT INTO gandy.audit_subject (owner, subject, audit_id)
SELECT a.owner, k.prefix || e.value, a.id
FROM gandy.audit a
CROSS JOIN (VALUES ('cancelled', ''), ('asked', ''), ('entries', ''), ('letters', 'dead letter ')) k(name, prefix)
CROSS JOIN LATERAL json_array_elements_text(
    CASE WHEN json_typeof(a.detail -> k.name) = 'array' THEN a.detail -> k.name ELSE '[]'::json END) e(value)
ON CONFLICT DO NOTHING;
INSERT INTO gandy.audit_subject (owner, subject, audit_id)
SELECT owner, detail ->> 'entry', id FROM gandy.audit WHERE detail ->> 'entry' IS NOT NULL
ON CONFLICT DO NOTHING;

CREATE INDEX ix_manifest_next_run ON gandy.manifest (owner, next_scheduled_run, id) WHERE next_scheduled_run IS NOT NULL;
CREATE INDEX ix_dead_letter_run ON gandy.dead_letter (metadata_id);

-- Other roles may do with the new table what they may do with the trail.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT a.privilege_type AS privilege,
               CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'gandy.audit'::regclass AND a.grantee <> c.relowner
          AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON gandy.audit_subject TO %s', kept.privilege, kept.role);
    END LOOP;
END $$;
