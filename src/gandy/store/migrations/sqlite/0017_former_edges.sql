-- compatible_from: 17
-- What a dependent has seen of each parent survives a change of its edge: an end that waits is not lost to a deploy, or to an
-- old server that starts again. Stop all servers before this migration; older code is refused afterwards, because it would
-- not keep these counts.

ALTER TABLE manifest_edge ADD COLUMN success_seen INTEGER NOT NULL DEFAULT 0;  -- the parent's counts when the child was
ALTER TABLE manifest_edge ADD COLUMN failure_seen INTEGER NOT NULL DEFAULT 0;  -- last queued, of every kind: the kind
ALTER TABLE manifest_edge ADD COLUMN end_seen INTEGER NOT NULL DEFAULT 0;      -- may change
-- What is not known of another kind counts as seen, except that a success or a failure is an end, too.
UPDATE manifest_edge SET
    success_seen = CASE kind WHEN 'success' THEN seen ELSE (SELECT p.success_count FROM manifest p WHERE p.id = parent_id) END,
    failure_seen = CASE kind WHEN 'failure' THEN seen
                             ELSE (SELECT p.final_failure_count FROM manifest p WHERE p.id = parent_id) END,
    end_seen = max(0, CASE kind
        WHEN 'end' THEN seen
        WHEN 'success' THEN (SELECT p.end_count - max(p.success_count - seen, 0) FROM manifest p WHERE p.id = parent_id)
        WHEN 'failure' THEN (SELECT p.end_count - max(p.final_failure_count - seen, 0) FROM manifest p WHERE p.id = parent_id)
        ELSE (SELECT p.end_count FROM manifest p WHERE p.id = parent_id) END);

-- Edges that are no longer declared, until they are declared again, or for a day.
CREATE TABLE manifest_former_edge (
    id               INTEGER PRIMARY KEY,
    child_id         INTEGER NOT NULL REFERENCES manifest ON DELETE CASCADE,
    parent_id        INTEGER NOT NULL REFERENCES manifest ON DELETE CASCADE,
    success_seen     INTEGER NOT NULL,
    failure_seen     INTEGER NOT NULL,
    end_seen         INTEGER NOT NULL,
    output_seen      INTEGER,       -- the success count of the last output that was taken; null: none was passed
    dropped_at       TEXT NOT NULL CHECK (dropped_at LIKE '____-__-__T__:__:__.______Z'),
    UNIQUE (child_id, parent_id)
);
CREATE INDEX ix_manifest_former_edge_parent ON manifest_former_edge (parent_id);
CREATE INDEX ix_manifest_former_edge_dropped ON manifest_former_edge (dropped_at, id);
