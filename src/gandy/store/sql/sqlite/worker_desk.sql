-- name: list_workers
-- Live workers, and those that ended recently.
SELECT id, owner, host, pid, version, state, started_at, last_seen_at,
       state IN ('running', 'draining') AND lease_expires_at > gandy_now() AS is_alive,
       -gandy_seconds(last_seen_at) AS silent_seconds, gandy_seconds(lease_expires_at) AS lease_seconds,
       slots, busy, trains, longest_stall_seconds, stalled_junction
FROM worker WHERE (:owner IS NULL OR owner = :owner)
ORDER BY last_seen_at DESC, id LIMIT :limit;
