-- compatible_from: 4
-- An instant may be taken back because a clock was wrong. Rows that are there need not be read again for one word more.
ALTER TABLE gandy.work_queue DROP CONSTRAINT work_queue_reason_check;
ALTER TABLE gandy.work_queue ADD CONSTRAINT work_queue_reason_check CHECK (
    reason IN ('excluded', 'misfired', 'coalesced', 'active', 'already_queued', 'dead_letter', 'disabled', 'clock', 'error'))
    NOT VALID;
