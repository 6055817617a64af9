-- compatible_from: 1
-- A claim finds groups and trains with ready work by loose index scan, and reads no entry of a train that it cannot run.
CREATE INDEX ix_work_queue_ready_train ON work_queue (owner, manifest_group_id, train_name, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open';

-- Pending runs are claimed in the order in which they became pending: by id alone, runs of younger entries would wait
-- behind every older entry that is dispatched later.
DROP INDEX ix_metadata_live_pending;
CREATE INDEX ix_metadata_live_pending ON metadata (owner, rank DESC, created_at, id) WHERE train_state = 'pending';
