-- compatible_from: 1
-- A claim finds the groups and trains that have ready work by loose scan, and reads no entry of a train that it cannot run.
CREATE INDEX ix_work_queue_ready_train ON gandy.work_queue (owner, manifest_group_id, train_name, rank DESC, id)
    WHERE status = 'queued' AND gate = 'open';
