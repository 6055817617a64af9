-- compatible_from: 4
-- When the first of the failures in failure_count was recorded; meaningless while the count is 0.
ALTER TABLE manifest ADD COLUMN first_failed_at TEXT CHECK (first_failed_at LIKE '____-__-__T__:__:__.______Z');
