-- compatible_from: 4
-- When the first of the failures in failure_count was recorded; meaningless while the count is 0.
ALTER TABLE gandy.manifest ADD COLUMN first_failed_at timestamptz;
