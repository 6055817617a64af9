-- name: list_drops
-- Commands that drop every table and view, also an application's own: of a test's database, those that Gandy has made.
SELECT printf('DROP %s "%w"', upper(type), name) AS command FROM sqlite_master
WHERE type IN ('table', 'view') AND name NOT GLOB 'sqlite_*' ORDER BY type DESC, name;
