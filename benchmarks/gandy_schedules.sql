-- name: reset
TRUNCATE gandy.manifest, gandy.work_queue, gandy.dead_letter CASCADE

-- name: empty_queue
TRUNCATE gandy.work_queue

-- name: postpone
UPDATE gandy.manifest SET next_scheduled_run = gandy.now() + interval '1 hour', next_look_at = gandy.now() + interval '1 hour'

-- name: make_due
UPDATE gandy.manifest SET next_scheduled_run = gandy.now(), next_look_at = gandy.now()
WHERE id IN (SELECT id FROM gandy.manifest ORDER BY external_id LIMIT %s)
