-- compatible_from: 4
-- The secret parts of a train's input and output, one row for each layout that a process has used: payloads can be masked
-- without the train's code, also with layouts that the code no longer has.
CREATE TABLE gandy.payload_layout (
    owner         text NOT NULL,
    train_name    text NOT NULL,
    digest        text NOT NULL,               -- of both layouts
    input_layout  text NOT NULL,
    output_layout text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT gandy.now(),
    PRIMARY KEY (owner, train_name, digest)
);
