-- compatible_from: 12
-- One index of live runs instead of three: each of them was written with every claim. Older code names those that go.
CREATE INDEX ix_work_queue_live_run ON work_queue (train_state, owner, manifest_group_id) WHERE status = 'dispatched';
DROP INDEX ix_work_queue_live;
DROP INDEX ix_work_queue_live_group;
DROP INDEX ix_work_queue_live_deadline;
