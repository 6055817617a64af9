-- compatible_from: 4
-- The secret parts of a train's input and output, one row for each layout that a process has used: payloads can be masked
-- without the train's code, also with layouts that the code no longer has.
CREATE TABLE payload_layout (
    owner         TEXT NOT NULL,
    train_name    TEXT NOT NULL,
    digest        TEXT NOT NULL,               -- of both layouts
    input_layout  TEXT NOT NULL CHECK (json_valid(input_layout)),
    output_layout TEXT NOT NULL CHECK (json_valid(output_layout)),
    created_at    TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    PRIMARY KEY (owner, train_name, digest)
) STRICT;
