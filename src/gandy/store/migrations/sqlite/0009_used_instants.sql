-- compatible_from: 4
-- The used instants of a once that a later declaration replaced, each with its time of completion, or null.
ALTER TABLE manifest ADD COLUMN used_instants TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(used_instants));
