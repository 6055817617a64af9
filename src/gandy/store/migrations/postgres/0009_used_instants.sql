-- compatible_from: 4
-- The instants of a once that another declaration replaced after they were used, each with when it completed, or null.
ALTER TABLE gandy.manifest ADD COLUMN used_instants json NOT NULL DEFAULT '{}';
