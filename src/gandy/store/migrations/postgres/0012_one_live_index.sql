-- compatible_from: 12
-- One index of live runs instead of three: each of them was written with every claim. Older code is refused, as on SQLite, where its statements name them.
CREATE INDEX ix_work_queue_live_run ON gandy.work_queue (train_state, owner, manifest_group_id) WHERE status = 'dispatched';
DROP INDEX gandy.ix_work_queue_live;
DROP INDEX gandy.ix_work_queue_live_group;
DROP INDEX gandy.ix_work_queue_live_deadline;
