-- name: write_tallies
-- Adds the sums of one process; texts of histograms are added by writing one after the other.
INSERT INTO gandy.run_tally AS t (
    owner, worker_id, train_name, manifest_id, at, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits,
    durations)
SELECT %(owner)s, %(worker_id)s, s.*
FROM unnest(%(train_name)s::text[], %(manifest_id)s::bigint[], %(at)s::timestamptz[], %(completed)s::bigint[], %(failed)s::bigint[],
            %(cancelled)s::bigint[], %(longest_wait_seconds)s::float8[], %(longest_seconds)s::float8[], %(waits)s::text[],
            %(durations)s::text[]) s
ON CONFLICT (owner, at, train_name, manifest_id, worker_id) DO UPDATE SET
    completed = t.completed + excluded.completed, failed = t.failed + excluded.failed, cancelled = t.cancelled + excluded.cancelled,
    longest_wait_seconds = greatest(t.longest_wait_seconds, excluded.longest_wait_seconds),
    longest_seconds = greatest(t.longest_seconds, excluded.longest_seconds),
    waits = t.waits || excluded.waits, durations = t.durations || excluded.durations;

-- name: take_tallies
-- Removes tallies in order to merge them; found by their age, which the index serves.
DELETE FROM gandy.run_tally
WHERE at >= %(since)s AND at <= %(until)s AND id = ANY(%(ids)s::bigint[])
RETURNING owner, train_name AS train, manifest_id, at, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits, durations;

-- name: load_rollups
-- The rows that tallies are merged into; one probe each.
SELECT r.owner, r.scope, r.grain, r.at, r.train_name AS train, r.manifest_id, r.completed, r.failed, r.cancelled,
       r.longest_wait_seconds, r.longest_seconds, r.waits, r.durations
FROM unnest(%(owner)s::text[], %(scope)s::text[], %(grain)s::text[], %(at)s::timestamptz[], %(train_name)s::text[],
            %(manifest_id)s::bigint[]) AS k(owner, scope, grain, at, train_name, manifest_id)
CROSS JOIN LATERAL (
    SELECT * FROM gandy.run_rollup r
    WHERE r.owner = k.owner AND r.scope = k.scope AND r.grain = k.grain AND r.at = k.at AND r.train_name = k.train_name
      AND r.manifest_id = k.manifest_id
    LIMIT 1) r;

-- name: write_rollups
-- Whole rows: under the lock of the merge, nothing else writes them.
INSERT INTO gandy.run_rollup (
    owner, scope, grain, at, train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits,
    durations)
SELECT * FROM unnest(
    %(owner)s::text[], %(scope)s::text[], %(grain)s::text[], %(at)s::timestamptz[], %(train_name)s::text[], %(manifest_id)s::bigint[],
    %(completed)s::bigint[], %(failed)s::bigint[], %(cancelled)s::bigint[], %(longest_wait_seconds)s::float8[],
    %(longest_seconds)s::float8[], %(waits)s::text[], %(durations)s::text[])
ON CONFLICT (owner, scope, grain, at, train_name, manifest_id) DO UPDATE SET
    completed = excluded.completed, failed = excluded.failed, cancelled = excluded.cancelled,
    longest_wait_seconds = excluded.longest_wait_seconds, longest_seconds = excluded.longest_seconds,
    waits = excluded.waits, durations = excluded.durations;

-- name: list_train_rollups
-- The sums of each train, by minute, hour or day, with the tallies that are not merged yet.
SELECT train_name AS train, 0 AS manifest_id, at, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits, durations
FROM gandy.run_rollup
WHERE owner = %(owner)s AND scope = 'train' AND grain = %(grain)s AND at >= %(since)s
  AND (%(train)s::text IS NULL OR train_name = %(train)s)
UNION ALL
SELECT train_name, 0, date_trunc(%(grain)s, at, 'UTC'), sum(completed)::bigint, sum(failed)::bigint, sum(cancelled)::bigint,
       max(longest_wait_seconds), max(longest_seconds), string_agg(waits, ''), string_agg(durations, '')
FROM gandy.run_tally
WHERE owner = %(owner)s AND at >= %(since)s AND (%(train)s::text IS NULL OR train_name = %(train)s)
GROUP BY 1, 3;

-- name: count_ended_by_minute
-- Runs by the minute in which they ended; Gandy's own trains have no statistics.
SELECT at, sum(completed)::bigint AS completed, sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled
FROM (
    SELECT at, completed, failed, cancelled FROM gandy.run_rollup
    WHERE owner = %(owner)s AND scope = 'train' AND grain = 'minute' AND at >= %(since)s
    UNION ALL
    SELECT at, completed, failed, cancelled FROM gandy.run_tally WHERE owner = %(owner)s AND at >= %(since)s) sums
GROUP BY at ORDER BY at;

-- name: rank_manifest_rollups
-- The manifests that come first in an order, by their newest figures up to a limit. Bounds and order are written so that only
-- the primary key can serve: by age, the planner would read the figures of all owners.
SELECT train_name AS train, manifest_id, (sum(ranked) OVER ())::bigint AS seen
FROM (
    SELECT train_name, manifest_id, sum(completed) AS completed, sum(failed) AS failed, sum(cancelled) AS cancelled,
           max(longest_wait_seconds) AS longest_wait_seconds, max(longest_seconds) AS longest_seconds, sum(ranked) AS ranked
    FROM (
        (SELECT train_name, manifest_id, completed::float8, failed::float8, cancelled::float8, longest_wait_seconds, longest_seconds,
                1 AS ranked
         FROM gandy.run_rollup
         WHERE (owner, scope, grain, at) >= (%(owner)s, 'manifest', %(grain)s, %(since)s)
           AND (owner, scope, grain) <= (%(owner)s, 'manifest', %(grain)s)
           AND (%(train)s::text IS NULL OR train_name = %(train)s)
         ORDER BY owner DESC, scope DESC, grain DESC, at DESC LIMIT %(searched)s)
        UNION ALL
        SELECT train_name, manifest_id, completed::float8, failed::float8, cancelled::float8, longest_wait_seconds, longest_seconds, 0
        FROM gandy.run_tally
        WHERE owner = %(owner)s AND at >= %(since)s AND manifest_id <> 0 AND (%(train)s::text IS NULL OR train_name = %(train)s)) figures
    GROUP BY train_name, manifest_id) sums
ORDER BY CASE %(sort)s
    WHEN 'failed' THEN failed
    WHEN 'failure_rate' THEN failed / greatest(completed + failed, 1)
    WHEN 'wait' THEN longest_wait_seconds
    WHEN 'duration' THEN longest_seconds
    ELSE completed + failed + cancelled END DESC, completed + failed + cancelled DESC, train_name, manifest_id
LIMIT %(limit)s;

-- name: list_manifest_rollups
-- The sums of chosen manifests, by minute, hour or day; the histograms of a manifest that ran in several trains are apart.
-- Materialized, so that the plan starts no parallel workers for a few hundred rows.
WITH sums AS MATERIALIZED (
    SELECT train_name, manifest_id, at, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits, durations
    FROM gandy.run_rollup
    WHERE owner = %(owner)s AND scope = 'manifest' AND grain = %(grain)s AND at >= %(since)s
      AND manifest_id = ANY(%(manifest_ids)s::bigint[])
    UNION ALL
    SELECT train_name, manifest_id, date_trunc(%(grain)s, at, 'UTC'), sum(completed)::bigint, sum(failed)::bigint,
           sum(cancelled)::bigint, max(longest_wait_seconds), max(longest_seconds), string_agg(waits, ''), string_agg(durations, '')
    FROM gandy.run_tally
    WHERE owner = %(owner)s AND at >= %(since)s AND manifest_id = ANY(%(manifest_ids)s::bigint[])
    GROUP BY 1, 2, 3)
SELECT sums.train_name AS train, sums.manifest_id,
       (SELECT m.external_id FROM gandy.manifest m WHERE m.id = sums.manifest_id AND m.owner = %(owner)s) AS manifest,
       sums.at, sums.completed, sums.failed, sums.cancelled, sums.longest_wait_seconds, sums.longest_seconds, sums.waits, sums.durations
FROM sums;
