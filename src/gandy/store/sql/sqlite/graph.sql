-- name: list_dependencies
-- Manifests and their parents, up to the limit.
SELECT c.external_id AS child, c.name AS child_train, c.is_enabled AS is_child_enabled,
       c.failure_count AS child_failures, c.active_run_id AS child_run_id,
       p.external_id AS parent, p.name AS parent_train, p.is_enabled AS is_parent_enabled,
       p.failure_count AS parent_failures, p.active_run_id AS parent_run_id, e.kind, e.is_output_passed
FROM (SELECT * FROM manifest WHERE depends_on_manifest_id > 0 AND +owner = :owner  -- by the index of dependents
      ORDER BY depends_on_manifest_id LIMIT :members) c
JOIN manifest_edge e ON e.child_id = c.id
JOIN manifest p ON p.id = e.parent_id AND p.owner = c.owner
ORDER BY p.external_id, c.external_id LIMIT :limit;

-- name: list_group_dependencies
-- Dependencies in which either side belongs to the group: the parents and the dependents of its members.
SELECT c.external_id AS child, c.name AS child_train, c.is_enabled AS is_child_enabled,
       c.failure_count AS child_failures, c.active_run_id AS child_run_id,
       p.external_id AS parent, p.name AS parent_train, p.is_enabled AS is_parent_enabled,
       p.failure_count AS parent_failures, p.active_run_id AS parent_run_id, e.kind, e.is_output_passed
FROM (SELECT * FROM manifest WHERE manifest_group_id = :group_id ORDER BY id LIMIT :members) c
JOIN manifest_edge e ON e.child_id = c.id
JOIN manifest p ON p.id = e.parent_id
WHERE c.owner = :owner AND p.owner = :owner
UNION
SELECT * FROM (
    SELECT c.external_id, c.name, c.is_enabled, c.failure_count, c.active_run_id,
           p.external_id, p.name, p.is_enabled, p.failure_count, p.active_run_id, e.kind, e.is_output_passed
    FROM (SELECT * FROM manifest WHERE manifest_group_id = :group_id ORDER BY id LIMIT :members) p
    CROSS JOIN manifest_edge e ON e.parent_id = p.id
    CROSS JOIN manifest c ON c.id = e.child_id
    WHERE p.owner = :owner AND c.owner = :owner LIMIT :members)
ORDER BY parent, child LIMIT :limit;
