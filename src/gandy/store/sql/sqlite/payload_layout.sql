-- name: record_layouts
-- One row for each layout.
INSERT INTO payload_layout (owner, train_name, digest, input_layout, output_layout, created_at)
VALUES (:owner, :train_name, :digest, :input_layout, :output_layout, gandy_now())
ON CONFLICT (owner, train_name, digest) DO NOTHING;
