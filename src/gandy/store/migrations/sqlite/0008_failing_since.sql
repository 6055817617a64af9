-- compatible_from: 4
-- When the first of the failures that failure_count counts was recorded; it says nothing while that is 0.
ALTER TABLE manifest ADD COLUMN first_failed_at TEXT CHECK (first_failed_at LIKE '____-__-__T__:__:__.______Z');
