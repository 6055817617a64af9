-- compatible_from: 4
-- An entry whose turn has not come has the status waiting, and the id that its run will have. Older code claims only queued
-- entries, so it never runs a waiting one; the manager's repair pass promotes entries that older code does not.
ALTER TABLE gandy.work_queue DROP CONSTRAINT work_queue_status_check;
ALTER TABLE gandy.work_queue ADD CONSTRAINT work_queue_status_check
    CHECK (status IN ('queued', 'waiting', 'dispatched', 'cancelled', 'skipped'));
ALTER TABLE gandy.work_queue DROP CONSTRAINT work_queue_reason_check;
ALTER TABLE gandy.work_queue ADD CONSTRAINT work_queue_reason_check
    CHECK (reason IN ('excluded', 'misfired', 'coalesced', 'active', 'already_queued', 'dead_letter', 'disabled', 'clock', 'error'));
ALTER TABLE gandy.work_queue ADD COLUMN input_digest text;  -- of a waiting entry, with its manifest id; finds equal inputs

-- Promotion reads the first waiting entry of a manifest, or the first trigger; the repair pass reads each manifest once.
CREATE INDEX ix_work_queue_waiting ON gandy.work_queue (manifest_id, id) WHERE status = 'waiting';
CREATE INDEX ix_work_queue_waiting_trigger ON gandy.work_queue (manifest_id, id) WHERE status = 'waiting' AND origin = 'trigger';
CREATE INDEX ix_work_queue_waiting_input ON gandy.work_queue (input_digest) WHERE status = 'waiting';

-- A resolved letter is kept while its requeued entry is queued or waits.
DROP INDEX gandy.ix_work_queue_dead_letter;
CREATE INDEX ix_work_queue_dead_letter ON gandy.work_queue (dead_letter_id)
    WHERE dead_letter_id IS NOT NULL AND status IN ('queued', 'waiting');
