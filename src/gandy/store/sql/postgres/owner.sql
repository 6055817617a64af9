-- name: list_owners
-- The applications that have rows in this database, by loose index scan: one probe each.
WITH RECURSIVE grouped(owner) AS (
    (SELECT owner FROM gandy.manifest_group ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT g.owner FROM gandy.manifest_group g WHERE g.owner > grouped.owner ORDER BY g.owner LIMIT 1)
    FROM grouped WHERE grouped.owner IS NOT NULL
), parked(owner) AS (
    (SELECT owner FROM gandy.dead_letter WHERE status = 'awaiting_intervention' ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT l.owner FROM gandy.dead_letter l
            WHERE l.status = 'awaiting_intervention' AND l.owner > parked.owner ORDER BY l.owner LIMIT 1)
    FROM parked WHERE parked.owner IS NOT NULL
)
SELECT owner FROM grouped WHERE owner IS NOT NULL
UNION SELECT owner FROM parked WHERE owner IS NOT NULL
UNION SELECT owner FROM gandy.worker
ORDER BY owner;

-- name: list_owners_of_runs
-- The applications behind this one that have finished runs, by loose index scan.
WITH RECURSIVE kept(owner) AS (
    (SELECT owner FROM gandy.history WHERE owner > %(beyond)s ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT h.owner FROM gandy.history h WHERE h.owner > kept.owner ORDER BY h.owner LIMIT 1)
    FROM kept WHERE kept.owner IS NOT NULL
)
SELECT owner FROM kept WHERE owner IS NOT NULL;

-- name: find_owners_of_manifest
-- The owners of an external id, which is unique only within an owner.
SELECT owner FROM gandy.manifest WHERE owner = ANY(%(owners)s::text[]) AND external_id = %(name)s ORDER BY owner;

-- name: find_owners_of_group
-- The owners of a group name, which is unique only within an owner.
SELECT owner FROM gandy.manifest_group WHERE owner = ANY(%(owners)s::text[]) AND name = %(name)s ORDER BY owner;
