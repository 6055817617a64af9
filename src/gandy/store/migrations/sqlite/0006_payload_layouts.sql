-- compatible_from: 4
-- Which parts of a train's input and output are secret, one row for each layout that a process has used: who shows a payload
-- need not know its train, and a layout that the code no longer has still masks what it wrote.
CREATE TABLE payload_layout (
    owner         TEXT NOT NULL,
    train_name    TEXT NOT NULL,
    digest        TEXT NOT NULL,               -- of both layouts
    input_layout  TEXT NOT NULL CHECK (json_valid(input_layout)),
    output_layout TEXT NOT NULL CHECK (json_valid(output_layout)),
    created_at    TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.______Z'),
    PRIMARY KEY (owner, train_name, digest)
) STRICT;
