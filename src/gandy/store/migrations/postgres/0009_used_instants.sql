-- compatible_from: 4
-- The used instants of a once that a later declaration replaced, each with its time of completion, or null.
ALTER TABLE gandy.manifest ADD COLUMN used_instants json NOT NULL DEFAULT '{}';
