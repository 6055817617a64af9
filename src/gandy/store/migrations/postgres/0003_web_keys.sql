-- compatible_from: 1
-- The random part of each session and one-time code of the dashboard; the other part is the digest of a token, which is not
-- stored. Grant it to the roles that serve the dashboard and to no other.
CREATE TABLE gandy.web_key (
    id         text PRIMARY KEY,               -- the part of the cookie or code that finds the row
    owner      text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('session', 'code')),
    secret     text NOT NULL,                  -- random; a key is made of it and of the token's digest
    token      text NOT NULL,                  -- the name of the token that it was made with
    name       text NOT NULL,                  -- the operator's name, for the audit trail
    created_at timestamptz NOT NULL DEFAULT gandy.now(),
    expires_at timestamptz NOT NULL
);
REVOKE ALL ON gandy.web_key FROM PUBLIC;
CREATE INDEX ix_web_key_expires ON gandy.web_key (expires_at, id);
CREATE INDEX ix_web_key_owner ON gandy.web_key (owner, kind, token, created_at DESC, id);
