-- name: list_owners
-- The applications that have rows in this database, by loose index scan: one probe each.
WITH RECURSIVE grouped(owner) AS (
    SELECT min(owner) FROM manifest_group
    UNION ALL
    SELECT (SELECT min(g.owner) FROM manifest_group g WHERE g.owner > grouped.owner)
    FROM grouped WHERE grouped.owner IS NOT NULL
), parked(owner) AS (
    SELECT min(owner) FROM dead_letter WHERE status = 'awaiting_intervention'
    UNION ALL
    SELECT (SELECT min(l.owner) FROM dead_letter l WHERE l.status = 'awaiting_intervention' AND l.owner > parked.owner)
    FROM parked WHERE parked.owner IS NOT NULL
)
SELECT owner FROM grouped WHERE owner IS NOT NULL
UNION SELECT owner FROM parked WHERE owner IS NOT NULL
UNION SELECT owner FROM worker
ORDER BY owner;

-- name: list_owners_of_runs
-- The applications behind this one that have finished runs, by loose index scan.
WITH RECURSIVE kept(owner) AS (
    SELECT min(owner) FROM history INDEXED BY ix_history_name WHERE owner > :beyond
    UNION ALL
    SELECT (SELECT min(h.owner) FROM history h INDEXED BY ix_history_name WHERE h.owner > kept.owner)
    FROM kept WHERE kept.owner IS NOT NULL
)
SELECT owner FROM kept WHERE owner IS NOT NULL;

-- name: find_owners_of_manifest
-- The owners of an external id, which is unique only within an owner.
SELECT owner FROM manifest WHERE owner IN (SELECT value FROM json_each(:owners)) AND external_id = :name ORDER BY owner;

-- name: find_owners_of_group
-- The owners of a group name, which is unique only within an owner.
SELECT owner FROM manifest_group WHERE owner IN (SELECT value FROM json_each(:owners)) AND name = :name ORDER BY owner;
