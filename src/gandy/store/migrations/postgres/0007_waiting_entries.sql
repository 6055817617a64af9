-- compatible_from: 4
-- An entry whose turn has not come waits beside the queue, under the id that its run will have. Older code claims only what
-- is queued, so it never runs a waiting entry; what it leaves behind is promoted by the manager's repair pass.
ALTER TABLE gandy.work_queue DROP CONSTRAINT work_queue_status_check;
ALTER TABLE gandy.work_queue ADD CONSTRAINT work_queue_status_check
    CHECK (status IN ('queued', 'waiting', 'dispatched', 'cancelled', 'skipped'));
ALTER TABLE gandy.work_queue DROP CONSTRAINT work_queue_reason_check;
ALTER TABLE gandy.work_queue ADD CONSTRAINT work_queue_reason_check
    CHECK (reason IN ('excluded', 'misfired', 'coalesced', 'active', 'already_queued', 'dead_letter', 'disabled', 'clock', 'error'));
ALTER TABLE gandy.work_queue ADD COLUMN input_digest text;  -- of a waiting entry, with its manifest: finds an equal one

-- Promotion reads the first entry of a manifest here, or the first that an operator triggered; the repair pass each manifest once.
CREATE INDEX ix_work_queue_waiting ON gandy.work_queue (manifest_id, id) WHERE status = 'waiting';
CREATE INDEX ix_work_queue_waiting_trigger ON gandy.work_queue (manifest_id, id) WHERE status = 'waiting' AND origin = 'trigger';
CREATE INDEX ix_work_queue_waiting_input ON gandy.work_queue (input_digest) WHERE status = 'waiting';

-- A resolved letter is kept while its requeued entry is queued or waits.
DROP INDEX gandy.ix_work_queue_dead_letter;
CREATE INDEX ix_work_queue_dead_letter ON gandy.work_queue (dead_letter_id)
    WHERE dead_letter_id IS NOT NULL AND status IN ('queued', 'waiting');
