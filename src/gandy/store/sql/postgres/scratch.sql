-- name: list_drops
-- Commands that drop everything of Gandy, for a database that a test has filled.
SELECT 'DROP SCHEMA gandy CASCADE' AS command FROM pg_namespace WHERE nspname = 'gandy';
