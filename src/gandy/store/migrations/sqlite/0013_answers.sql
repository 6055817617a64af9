-- compatible_from: 12
-- Indexes for what operators ask: who did what, what comes next, and which dead letter a run has left.

-- What each entry of the audit trail is about, so that a job, a letter or a manifest finds its part of bulk actions, too.
CREATE TABLE audit_subject (
    owner    TEXT NOT NULL,
    subject  TEXT NOT NULL,                      -- an id of a job, a manifest, a group..., or "dead letter" and its id
    audit_id INTEGER NOT NULL REFERENCES audit ON DELETE CASCADE,
    PRIMARY KEY (owner, subject, audit_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ix_audit_subject_audit ON audit_subject (audit_id);
CREATE INDEX ix_audit_owner ON audit (owner, id);
CREATE INDEX ix_audit_actor ON audit (owner, actor, id);

INSERT INTO audit_subject (owner, subject, audit_id) SELECT owner, subject, id FROM audit;
INSERT INTO audit_subject (owner, subject, audit_id)
SELECT a.owner, k.prefix || e.value, a.id
FROM audit a
CROSS JOIN (SELECT 'cancelled' AS name, '' AS prefix UNION ALL SELECT 'asked', '' UNION ALL SELECT 'entries', ''
            UNION ALL SELECT 'letters', 'dead letter ') k
CROSS JOIN json_each(a.detail, '$.' || k.name) e
WHERE json_type(a.detail, '$.' || k.name) = 'array'
ON CONFLICT DO NOTHING;
INSERT INTO audit_subject (owner, subject, audit_id)
SELECT owner, CAST(json_extract(detail, '$.entry') AS TEXT), id FROM audit WHERE json_extract(detail, '$.entry') IS NOT NULL
ON CONFLICT DO NOTHING;

CREATE INDEX ix_manifest_next_run ON manifest (owner, next_scheduled_run, id) WHERE next_scheduled_run IS NOT NULL;
CREATE INDEX ix_dead_letter_run ON dead_letter (metadata_id);
