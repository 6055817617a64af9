-- compatible_from: 1
-- The random part of each session and one-time code of the dashboard; the other part is the digest of a token, which is not
-- stored.
CREATE TABLE web_key (
    id         TEXT PRIMARY KEY,               -- the part of the cookie or code that finds the row
    owner      TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('session', 'code')),
    secret     TEXT NOT NULL,                  -- random; a key is made of it and of the token's digest
    token      TEXT NOT NULL,                  -- the name of the token that it was made with
    name       TEXT NOT NULL,                  -- the operator's name, for the audit trail
    created_at TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    expires_at TEXT NOT NULL CHECK (expires_at LIKE '____-__-__T__:__:__.______Z')
) STRICT;
CREATE INDEX ix_web_key_expires ON web_key (expires_at, id);
CREATE INDEX ix_web_key_owner ON web_key (owner, kind, token, created_at DESC, id);
