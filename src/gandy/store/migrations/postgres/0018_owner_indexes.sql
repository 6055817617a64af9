-- compatible_from: 18
-- The lists of an application read its own rows: history, settled entries and letters have indexes that are led by the owner.
-- Building those of history reads it twice; stop all servers before this migration. Older code is refused, as on SQLite, where
-- its statements name an index that changes.

CREATE INDEX ix_history_rowwise_owner ON gandy.history_rowwise (owner, name, start_time);
CREATE INDEX ix_history_rowwise_unsuccessful_owner ON gandy.history_rowwise (owner, train_state, id) WHERE train_state <> 'completed';
DROP INDEX gandy.ix_history_rowwise_name;

DO $$
DECLARE
    leaf  record;
    dated text;
BEGIN
    FOR leaf IN
        SELECT c.oid, c.relname::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'gandy.history'::regclass AND NOT i.inhdetachpending AND c.relname <> 'history_rowwise'
        ORDER BY c.relname
    LOOP
        EXECUTE format('CREATE INDEX ON gandy.%I (owner, name, start_time)', leaf.name);
        EXECUTE format('CREATE INDEX ON gandy.%I (owner, train_state, id) WHERE train_state <> ''completed''', leaf.name);
        FOR dated IN
            SELECT i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
            WHERE x.indrelid = leaf.oid AND pg_get_indexdef(x.indexrelid) LIKE '%(name, start_time)'
        LOOP
            EXECUTE format('DROP INDEX gandy.%I', dated);
        END LOOP;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION gandy.add_history_piece(day date, piece integer) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parent text;
    leaf   text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['history', 'log'] LOOP
        leaf := parent || to_char(day, '_YYYYMMDD') || CASE WHEN piece > 0 THEN '_' || piece ELSE '' END;
        CONTINUE WHEN to_regclass('gandy.' || leaf) IS NOT NULL;
        EXECUTE format('CREATE TABLE gandy.%I (LIKE gandy.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', leaf, parent);
        IF parent = 'history' THEN
            EXECUTE format('ALTER TABLE gandy.%I ADD PRIMARY KEY (id)', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (owner, name, start_time)', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (manifest_id, id) WHERE manifest_id IS NOT NULL', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (train_state, id) WHERE train_state <> ''completed''', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (owner, train_state, id) WHERE train_state <> ''completed''', leaf);
            EXECUTE format('CREATE INDEX ON gandy.%I (retry_of) WHERE retry_of IS NOT NULL', leaf);
        ELSE
            EXECUTE format('CREATE INDEX ON gandy.%I (metadata_id, id)', leaf);
        END IF;
        EXECUTE format('ALTER TABLE gandy.%I ATTACH PARTITION gandy.%I FOR VALUES FROM (%L, %s) TO (%L, %s)',
                       parent, leaf, day, piece, day, piece + 1);
    END LOOP;
END $$;

CREATE INDEX ix_work_queue_settled_owner ON gandy.work_queue (owner, status, id) WHERE status IN ('skipped', 'cancelled');
CREATE INDEX ix_dead_letter_owner ON gandy.dead_letter (owner, id);
CREATE INDEX ix_dead_letter_resolved_owner ON gandy.dead_letter (owner, resolved_at, id) WHERE status <> 'awaiting_intervention';
