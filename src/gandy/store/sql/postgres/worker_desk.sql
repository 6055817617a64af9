-- name: list_workers
-- Live workers, and those that ended recently.
SELECT id, owner, host, pid, version, state, started_at, last_seen_at,
       state IN ('running', 'draining') AND lease_expires_at > gandy.now() AS is_alive,
       extract(epoch FROM gandy.now() - last_seen_at)::float8 AS silent_seconds,
       extract(epoch FROM lease_expires_at - gandy.now())::float8 AS lease_seconds,
       slots, busy, trains, longest_stall_seconds, stalled_junction
FROM gandy.worker WHERE (%(owner)s::text IS NULL OR owner = %(owner)s)
ORDER BY last_seen_at DESC, id LIMIT %(limit)s;
