-- compatible_from: 16
-- Differs from PostgreSQL: one table has all of history, so there are no pieces. Older code is refused, as there.

-- What waits is found by its owner. Entries that are ready or live are in none of these.
DROP INDEX ix_work_queue_future;
CREATE INDEX ix_work_queue_future ON work_queue (owner, scheduled_at) WHERE status = 'queued' AND gate = 'time';
CREATE INDEX ix_work_queue_held ON work_queue (owner, scheduled_at) WHERE status = 'queued' AND gate = 'manifest';
CREATE INDEX ix_work_queue_waiting_owner ON work_queue (owner, id) WHERE status = 'waiting';
