-- name: live_workers
-- Workers with a valid lease: their slots determine the default cap, their trains what can run. A process without slots
-- only has runs of its own.
SELECT id, host, pid, version, started_at, last_seen_at, lease_expires_at, slots, busy, trains, state
FROM gandy.worker
WHERE owner = :owner AND state IN ('running', 'draining') AND lease_expires_at > gandy.now() AND slots > 0
ORDER BY started_at;

-- name: drain_worker
-- The worker finishes its runs and claims no more.
UPDATE gandy.worker SET state = 'draining'
WHERE id = :id AND (:owner::text IS NULL OR owner = :owner) AND state = 'running' RETURNING id, owner;
