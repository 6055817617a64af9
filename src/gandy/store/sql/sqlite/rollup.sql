-- name: write_tallies
-- Adds the sums of one process; texts of histograms are added by writing one after the other.
INSERT INTO run_tally (
    owner, worker_id, train_name, manifest_id, at, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits,
    durations)
VALUES (:owner, :worker_id, :train_name, :manifest_id, :at, :completed, :failed, :cancelled, :longest_wait_seconds, :longest_seconds,
        :waits, :durations)
ON CONFLICT (owner, at, train_name, manifest_id, worker_id) DO UPDATE SET
    completed = completed + excluded.completed, failed = failed + excluded.failed, cancelled = cancelled + excluded.cancelled,
    longest_wait_seconds = max(longest_wait_seconds, excluded.longest_wait_seconds),
    longest_seconds = max(longest_seconds, excluded.longest_seconds),
    waits = waits || excluded.waits, durations = durations || excluded.durations;

-- name: take_tallies
-- Removes tallies in order to merge them.
DELETE FROM run_tally
WHERE id IN (SELECT value FROM json_each(:ids)) AND at >= :since AND at <= :until
RETURNING owner, train_name AS train, manifest_id, at, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits, durations;

-- name: load_rollups
-- The rows that tallies are merged into; one probe each.
SELECT owner, scope, grain, at, train_name AS train, manifest_id, completed, failed, cancelled, longest_wait_seconds, longest_seconds,
       waits, durations
FROM run_rollup
WHERE owner = :owner AND scope = :scope AND grain = :grain AND at = :at AND train_name = :train_name AND manifest_id = :manifest_id;

-- name: write_rollups
-- Whole rows: there is one writer at a time.
INSERT INTO run_rollup (
    owner, scope, grain, at, train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits,
    durations)
VALUES (:owner, :scope, :grain, :at, :train_name, :manifest_id, :completed, :failed, :cancelled, :longest_wait_seconds, :longest_seconds,
        :waits, :durations)
ON CONFLICT (owner, scope, grain, at, train_name, manifest_id) DO UPDATE SET
    completed = excluded.completed, failed = excluded.failed, cancelled = excluded.cancelled,
    longest_wait_seconds = excluded.longest_wait_seconds, longest_seconds = excluded.longest_seconds,
    waits = excluded.waits, durations = excluded.durations;

-- name: list_train_rollups
-- The sums of each train, by minute, hour or day, with the tallies that are not merged yet.
SELECT train_name AS train, 0 AS manifest_id, at, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits, durations
FROM run_rollup
WHERE owner = :owner AND scope = 'train' AND grain = :grain AND at >= :since AND (:train IS NULL OR train_name = :train)
UNION ALL
SELECT train_name, 0, substr(at, 1, CASE :grain WHEN 'day' THEN 10 WHEN 'hour' THEN 13 ELSE 16 END)
           || CASE :grain WHEN 'day' THEN 'T00:00:00.000000Z' WHEN 'hour' THEN ':00:00.000000Z' ELSE ':00.000000Z' END,
       sum(completed), sum(failed), sum(cancelled), max(longest_wait_seconds), max(longest_seconds), group_concat(waits, ''),
       group_concat(durations, '')
FROM run_tally
WHERE owner = :owner AND at >= :since AND (:train IS NULL OR train_name = :train)
GROUP BY 1, 3;

-- name: count_ended_by_minute
-- Runs by the minute in which they ended; Gandy's own trains have no statistics.
SELECT at, sum(completed) AS completed, sum(failed) AS failed, sum(cancelled) AS cancelled
FROM (
    SELECT at, completed, failed, cancelled FROM run_rollup
    WHERE owner = :owner AND scope = 'train' AND grain = 'minute' AND at >= :since
    UNION ALL
    SELECT at, completed, failed, cancelled FROM run_tally WHERE owner = :owner AND at >= :since) sums
GROUP BY at ORDER BY at;

-- name: rank_manifest_rollups
-- The manifests that come first in an order, by their newest figures up to a limit.
SELECT train_name AS train, manifest_id, sum(ranked) OVER () AS seen
FROM (
    SELECT train_name, manifest_id, sum(completed) AS completed, sum(failed) AS failed, sum(cancelled) AS cancelled,
           max(longest_wait_seconds) AS longest_wait_seconds, max(longest_seconds) AS longest_seconds, sum(ranked) AS ranked
    FROM (
        SELECT * FROM (
            SELECT train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds, longest_seconds, 1 AS ranked
            FROM run_rollup
            WHERE owner = :owner AND scope = 'manifest' AND grain = :grain AND at >= :since
              AND (:train IS NULL OR train_name = :train)
            ORDER BY at DESC LIMIT :searched)
        UNION ALL
        SELECT train_name, manifest_id, completed, failed, cancelled, longest_wait_seconds, longest_seconds, 0 FROM run_tally
        WHERE owner = :owner AND at >= :since AND manifest_id <> 0 AND (:train IS NULL OR train_name = :train))
    GROUP BY manifest_id, train_name)
ORDER BY CASE :sort
    WHEN 'failed' THEN failed
    WHEN 'failure_rate' THEN 1.0 * failed / max(completed + failed, 1)
    WHEN 'wait' THEN longest_wait_seconds
    WHEN 'duration' THEN longest_seconds
    ELSE completed + failed + cancelled END DESC, completed + failed + cancelled DESC, train_name, manifest_id
LIMIT :limit;

-- name: list_manifest_rollups
-- The sums of chosen manifests, by minute, hour or day; the histograms of a manifest that ran in several trains are apart.
SELECT sums.train_name AS train, sums.manifest_id, m.external_id AS manifest, sums.at, sums.completed, sums.failed, sums.cancelled,
       sums.longest_wait_seconds, sums.longest_seconds, sums.waits, sums.durations
FROM (
    SELECT train_name, manifest_id, at, completed, failed, cancelled, longest_wait_seconds, longest_seconds, waits, durations
    FROM run_rollup
    WHERE +owner = :owner AND +scope = 'manifest' AND grain = :grain AND at >= :since  -- by the index on the manifest
      AND manifest_id IN (SELECT value FROM json_each(:manifest_ids))
    UNION ALL
    SELECT train_name, manifest_id,
           substr(at, 1, CASE :grain WHEN 'day' THEN 10 WHEN 'hour' THEN 13 ELSE 16 END)
               || CASE :grain WHEN 'day' THEN 'T00:00:00.000000Z' WHEN 'hour' THEN ':00:00.000000Z' ELSE ':00.000000Z' END,
           sum(completed), sum(failed), sum(cancelled), max(longest_wait_seconds), max(longest_seconds), group_concat(waits, ''),
           group_concat(durations, '')
    FROM run_tally
    WHERE owner = :owner AND at >= :since AND manifest_id IN (SELECT value FROM json_each(:manifest_ids))
    GROUP BY 1, 2, 3) sums
LEFT JOIN manifest m ON m.id = sums.manifest_id AND m.owner = :owner;
