-- compatible_from: 4
-- Which parts of a train's input and output are secret, one row for each layout that a process has used: who shows a payload
-- need not know its train, and a layout that the code no longer has still masks what it wrote.
CREATE TABLE gandy.payload_layout (
    owner         text NOT NULL,
    train_name    text NOT NULL,
    digest        text NOT NULL,               -- of both layouts
    input_layout  text NOT NULL,
    output_layout text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT gandy.now(),
    PRIMARY KEY (owner, train_name, digest)
);
