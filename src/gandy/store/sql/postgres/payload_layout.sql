-- name: record_layouts
-- One row for each layout; existing rows are not locked, because it may run in a caller's transaction.
INSERT INTO gandy.payload_layout (owner, train_name, digest, input_layout, output_layout)
SELECT %(owner)s::text, w.train_name, w.digest, w.input_layout, w.output_layout
FROM unnest(%(train_name)s::text[], %(digest)s::text[], %(input_layout)s::text[], %(output_layout)s::text[])
    AS w(train_name, digest, input_layout, output_layout)
ORDER BY w.train_name, w.digest
ON CONFLICT (owner, train_name, digest) DO NOTHING;
