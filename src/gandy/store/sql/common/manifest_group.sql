-- name: find_group
-- The id of a group, by name.
SELECT id FROM gandy.manifest_group WHERE owner = :owner AND name = :name;

-- name: list_group_members
-- The manifests of a group, in the order in which they are locked.
SELECT m.external_id FROM gandy.manifest m JOIN gandy.manifest_group g ON g.id = m.manifest_group_id
WHERE g.owner = :owner AND m.owner = :owner AND g.name = :name AND m.orphaned_at IS NULL ORDER BY m.id;

-- name: list_groups_declared
-- All groups of an application, with their declarations and overrides.
SELECT id, name, declared, overrides, max_active_jobs, priority, is_enabled, disabled_reason
FROM gandy.manifest_group WHERE owner = :owner ORDER BY id;
