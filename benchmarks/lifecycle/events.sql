-- name: create
CREATE TABLE event (id bigint PRIMARY KEY, at timestamptz NOT NULL, payload text NOT NULL)

-- name: create_index
CREATE INDEX event_at ON event (at)

-- name: create_index_with_key
CREATE INDEX event_at_id ON event (at, id)

-- name: fill_tied
-- The old half has one instant, as a bulk load or an update of all rows leaves it.
INSERT INTO event SELECT n, now() - make_interval(days => 2), repeat('x', 60)
FROM generate_series(1, %(rows)s::bigint) n
UNION ALL
SELECT n, now(), repeat('x', 60) FROM generate_series(%(rows)s::bigint + 1, 2 * %(rows)s::bigint) n

-- name: fill
-- The old half lies days back, the kept half is of this minute.
INSERT INTO event SELECT n, now() - make_interval(days => 2) + n * interval '1 ms', repeat('x', 60)
FROM generate_series(1, %(rows)s::bigint) n
UNION ALL
SELECT n, now(), repeat('x', 60) FROM generate_series(%(rows)s::bigint + 1, 2 * %(rows)s::bigint) n

-- name: delete_all
DELETE FROM event WHERE at < now() - interval '1 hour'

-- name: delete_some
-- The form that most deletion jobs use.
DELETE FROM event WHERE id IN (SELECT id FROM event WHERE at < now() - interval '1 hour' LIMIT %(batch)s)

-- name: hold_snapshot
SELECT count(*) FROM event WHERE id = 0

-- name: create_numbers
-- Beyond every row that a benchmark fills in.
CREATE SEQUENCE event_number START 1000000000
