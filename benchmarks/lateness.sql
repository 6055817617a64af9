-- name: stagger
-- One manifest after the other comes due, a thousand in a second, beginning in two seconds.
UPDATE gandy.manifest m SET next_scheduled_run = at, next_look_at = at
FROM (SELECT id, gandy.now() + interval '2 seconds' + row_number() OVER (ORDER BY id) * interval '1 millisecond' AS at
      FROM gandy.manifest) due
WHERE due.id = m.id

-- name: queued
SELECT count(*) FROM gandy.work_queue WHERE origin = 'schedule'

-- name: lateness
SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY late), percentile_cont(0.99) WITHIN GROUP (ORDER BY late), max(late)
FROM (SELECT extract(epoch FROM created_at - due_at)::float8 AS late FROM gandy.work_queue WHERE origin = 'schedule') entries
