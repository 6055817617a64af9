-- The operational tables of a clustered state store, for SQLite: instants are text in UTC, YYYY-MM-DDTHH:MM:SS.ffffffZ.

CREATE TABLE presence_entries (
    tenant_id       text   NOT NULL,
    client_id       text   NOT NULL,
    last_seen_at_ms integer NOT NULL,
    expires_at_ms   integer NOT NULL,
    PRIMARY KEY (tenant_id, client_id)
);
CREATE INDEX ix_presence_expires ON presence_entries (expires_at_ms);
CREATE INDEX ix_presence_seen ON presence_entries (tenant_id, last_seen_at_ms);

CREATE TABLE connections (
    id            text   PRIMARY KEY,
    edge          text   NOT NULL,
    expires_at_ms integer NOT NULL
);
CREATE INDEX ix_connections_expires ON connections (expires_at_ms);

CREATE TABLE channel_inbound_dedupe (
    message_key   text   PRIMARY KEY,
    expires_at_ms integer NOT NULL
);
CREATE INDEX ix_dedupe_expires ON channel_inbound_dedupe (expires_at_ms);

CREATE TABLE channel_inbox (
    id           integer PRIMARY KEY,
    status       text   NOT NULL CHECK (status IN ('queued', 'processing', 'completed', 'failed')),
    received_at  text NOT NULL,
    processed_at text,
    failed_at    text
);
CREATE INDEX ix_inbox_processed ON channel_inbox (status, processed_at);
CREATE INDEX ix_inbox_failed ON channel_inbox (status, failed_at);

CREATE TABLE channel_outbox (
    id         integer PRIMARY KEY,
    inbox_id   integer NOT NULL REFERENCES channel_inbox (id),
    status     text   NOT NULL CHECK (status IN ('queued', 'sending', 'sent', 'failed')),
    created_at text NOT NULL,
    sent_at    text,
    failed_at  text
);
CREATE INDEX ix_outbox_inbox ON channel_outbox (inbox_id);
CREATE INDEX ix_outbox_sent ON channel_outbox (status, sent_at);
CREATE INDEX ix_outbox_failed ON channel_outbox (status, failed_at);

CREATE TABLE conversation_leases (
    conversation_id     text   PRIMARY KEY,
    owner               text   NOT NULL,
    lease_expires_at_ms integer NOT NULL
);
CREATE INDEX ix_conversation_leases_expires ON conversation_leases (lease_expires_at_ms);

CREATE TABLE workspace_leases (
    workspace_id        text   PRIMARY KEY,
    owner               text   NOT NULL,
    lease_expires_at_ms integer NOT NULL
);
CREATE INDEX ix_workspace_leases_expires ON workspace_leases (lease_expires_at_ms);

CREATE TABLE oauth_pending (
    state      text PRIMARY KEY,
    verifier   text NOT NULL,
    expires_at text NOT NULL
);
CREATE INDEX ix_oauth_pending_expires ON oauth_pending (expires_at);

CREATE TABLE oauth_refresh_leases (
    account             text   PRIMARY KEY,
    owner               text   NOT NULL,
    lease_expires_at_ms integer NOT NULL
);
CREATE INDEX ix_oauth_refresh_leases_expires ON oauth_refresh_leases (lease_expires_at_ms);

CREATE TABLE models_dev_cache (
    id         integer PRIMARY KEY CHECK (id = 1),
    body       text NOT NULL,
    fetched_at text NOT NULL
);

CREATE TABLE models_dev_refresh_leases (
    id                  integer PRIMARY KEY,
    owner               text   NOT NULL,
    lease_expires_at_ms integer NOT NULL
);
CREATE INDEX ix_models_dev_refresh_leases_expires ON models_dev_refresh_leases (lease_expires_at_ms);

CREATE TABLE outbox (
    id         integer PRIMARY KEY,
    topic      text NOT NULL,
    payload    text NOT NULL,
    created_at text NOT NULL
);
CREATE INDEX ix_outbox_created ON outbox (created_at);

CREATE TABLE outbox_consumers (
    name       text   PRIMARY KEY,
    position   integer NOT NULL,
    updated_at text NOT NULL
);
CREATE INDEX ix_outbox_consumers_updated ON outbox_consumers (updated_at);
