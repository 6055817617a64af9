-- name: list_dependencies
-- Manifests and their parents, up to the limit; the limits inside keep the planner from reading all edges.
SELECT c.external_id AS child, c.name AS child_train, c.is_enabled AS is_child_enabled,
       c.failure_count AS child_failures, c.active_run_id AS child_run_id,
       p.external_id AS parent, p.name AS parent_train, p.is_enabled AS is_parent_enabled,
       p.failure_count AS parent_failures, p.active_run_id AS parent_run_id, e.kind, e.is_output_passed
FROM (SELECT * FROM gandy.manifest WHERE depends_on_manifest_id > 0 AND owner = %(owner)s
      ORDER BY depends_on_manifest_id LIMIT %(members)s) c
CROSS JOIN LATERAL (SELECT * FROM gandy.manifest_edge e WHERE e.child_id = c.id LIMIT %(limit)s) e
CROSS JOIN LATERAL (SELECT * FROM gandy.manifest p WHERE p.id = e.parent_id AND p.owner = c.owner LIMIT 1) p
ORDER BY p.external_id, c.external_id LIMIT %(limit)s;

-- name: list_group_dependencies
-- Dependencies in which either side belongs to the group: the parents and the dependents of its members.
-- BETWEEN instead of =, so that only one index provides this order.
SELECT c.external_id AS child, c.name AS child_train, c.is_enabled AS is_child_enabled,
       c.failure_count AS child_failures, c.active_run_id AS child_run_id,
       p.external_id AS parent, p.name AS parent_train, p.is_enabled AS is_parent_enabled,
       p.failure_count AS parent_failures, p.active_run_id AS parent_run_id, e.kind, e.is_output_passed
FROM (SELECT * FROM gandy.manifest WHERE manifest_group_id BETWEEN %(group_id)s AND %(group_id)s
      ORDER BY manifest_group_id, id LIMIT %(members)s) c
JOIN gandy.manifest_edge e ON e.child_id = c.id
JOIN gandy.manifest p ON p.id = e.parent_id
WHERE c.owner = %(owner)s AND p.owner = %(owner)s
UNION
SELECT c.external_id, c.name, c.is_enabled, c.failure_count, c.active_run_id,
       p.external_id, p.name, p.is_enabled, p.failure_count, p.active_run_id, e.kind, e.is_output_passed
FROM (SELECT * FROM gandy.manifest WHERE manifest_group_id BETWEEN %(group_id)s AND %(group_id)s
      ORDER BY manifest_group_id, id LIMIT %(members)s) p
CROSS JOIN LATERAL (SELECT * FROM gandy.manifest_edge WHERE parent_id = p.id LIMIT %(limit)s) e
JOIN gandy.manifest c ON c.id = e.child_id
WHERE p.owner = %(owner)s AND c.owner = %(owner)s
ORDER BY parent, child LIMIT %(limit)s;
