-- compatible_from: 18
-- The lists of an application read its own rows: history, settled entries and letters have indexes that are led by the owner.
-- Older code is refused: its statements name an index that this migration changes.

DROP INDEX ix_history_name;
CREATE INDEX ix_history_name ON history (owner, name, start_time);
CREATE INDEX ix_history_unsuccessful_owner ON history (owner, train_state, id) WHERE train_state <> 'completed';
CREATE INDEX ix_work_queue_settled_owner ON work_queue (owner, status, id) WHERE status IN ('skipped', 'cancelled');
CREATE INDEX ix_dead_letter_owner ON dead_letter (owner, id);
CREATE INDEX ix_dead_letter_resolved_owner ON dead_letter (owner, resolved_at, id) WHERE status <> 'awaiting_intervention';
