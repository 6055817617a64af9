-- compatible_from: 4
-- When the first of the failures that failure_count counts was recorded; it says nothing while that is 0.
ALTER TABLE gandy.manifest ADD COLUMN first_failed_at timestamptz;
