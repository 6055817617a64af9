"""PostgreSQL: tables that publish their changes, with nothing that names the changed row to a subscriber.

The database refuses every DELETE or UPDATE of such a table.
"""

from __future__ import annotations

PUBLISHED = """
    published (oid, verb) AS MATERIALIZED (
        SELECT relation.oid, sent.verb FROM pg_catalog.pg_publication_tables AS told
        JOIN pg_catalog.pg_publication AS publication ON publication.pubname = told.pubname
        JOIN pg_catalog.pg_namespace AS space ON space.nspname = told.schemaname
        JOIN pg_catalog.pg_class AS relation
        ON relation.relnamespace = space.oid AND relation.relname = told.tablename
        CROSS JOIN LATERAL (
            VALUES ('DELETE', publication.pubdelete), ('UPDATE', publication.pubupdate)
        ) AS sent (verb, is_sent) WHERE sent.is_sent
    )"""
# The identity of a row: its primary key unless the table says otherwise; n is nothing, i a unique index.
UNTOLD = """(
    SELECT pg_catalog.json_agg(DISTINCT published.verb) FROM member
    JOIN pg_catalog.pg_class AS leaf ON leaf.oid = member.oid
    JOIN published ON published.oid = leaf.oid
    OR published.oid IN (SELECT relid::oid FROM pg_catalog.pg_partition_ancestors(leaf.oid))
    WHERE member.root = wanted.oid AND leaf.relkind = 'r' AND CASE leaf.relreplident
        WHEN 'f' THEN false WHEN 'n' THEN true ELSE NOT EXISTS (
            SELECT FROM pg_catalog.pg_index WHERE indrelid = leaf.oid
            AND CASE leaf.relreplident WHEN 'd' THEN indisprimary ELSE indisreplident END
        ) END
)"""
