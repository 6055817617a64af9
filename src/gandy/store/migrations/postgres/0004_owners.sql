-- compatible_from: 4
-- Manifests belong to one application: external ids are unique per owner, and a manifest's parent and group have the same
-- owner.

-- A dependent of another application's manifest is switched off, with the reason.
UPDATE gandy.manifest c SET
    schedule_type = 'none', depends_on_manifest_id = NULL, is_enabled = false, next_look_at = NULL, disabled_at = gandy.now(),
    disabled_reason = 'it followed ' || p.external_id || ' of the application ' || p.owner || '; a manifest follows only those of its own application'
FROM gandy.manifest p WHERE p.id = c.depends_on_manifest_id AND p.owner <> c.owner;

ALTER TABLE gandy.manifest DROP CONSTRAINT manifest_external_id;
ALTER TABLE gandy.manifest ADD CONSTRAINT manifest_owner_external_id UNIQUE (owner, external_id);
ALTER TABLE gandy.manifest ADD CONSTRAINT manifest_owner_of_id UNIQUE (id, owner);
CREATE UNIQUE INDEX ix_manifest_group_owner ON gandy.manifest_group (id, owner);
ALTER TABLE gandy.manifest DROP CONSTRAINT manifest_manifest_group_id_fkey;
ALTER TABLE gandy.manifest ADD CONSTRAINT manifest_group_of_owner
    FOREIGN KEY (manifest_group_id, owner) REFERENCES gandy.manifest_group (id, owner);
ALTER TABLE gandy.manifest DROP CONSTRAINT manifest_depends_on_manifest_id_fkey;
ALTER TABLE gandy.manifest ADD CONSTRAINT manifest_parent_of_owner
    FOREIGN KEY (depends_on_manifest_id, owner) REFERENCES gandy.manifest (id, owner);

-- Listings walk through one owner's rows only.
DROP INDEX gandy.ix_manifest_name;
CREATE INDEX ix_manifest_name ON gandy.manifest (name, owner, external_id);
DROP INDEX gandy.ix_manifest_disabled;
CREATE INDEX ix_manifest_disabled ON gandy.manifest (owner, external_id) WHERE NOT is_enabled;
