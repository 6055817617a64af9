-- name: empty_queue
TRUNCATE gandy.work_queue

-- name: postpone
UPDATE gandy.manifest SET next_scheduled_run = gandy.now() + interval '1 hour', next_look_at = gandy.now() + interval '1 hour'

-- name: make_due
UPDATE gandy.manifest SET next_scheduled_run = gandy.now(), next_look_at = gandy.now()
WHERE id IN (SELECT id FROM gandy.manifest ORDER BY external_id LIMIT %s)

-- name: clear_queue
-- By row: to truncate would have every plan made anew.
DELETE FROM gandy.work_queue
