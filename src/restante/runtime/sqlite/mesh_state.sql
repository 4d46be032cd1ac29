-- What a client keeps of the mesh: descriptors of nodes, and which buckets of its inboxes it has read (SPEC 7.1, 7.5).

-- name: nodes
SELECT descriptor FROM mesh_node;

-- name: forget_nodes
DELETE FROM mesh_node;

-- name: add_node
INSERT INTO mesh_node (descriptor) VALUES (?);

-- name: buckets
SELECT bucket, phase, next_read_at_ms, reads_when_old FROM mesh_bucket WHERE inbox = ? ORDER BY bucket;

-- name: store_bucket
INSERT INTO mesh_bucket (inbox, bucket, phase, next_read_at_ms, reads_when_old) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (inbox, bucket) DO UPDATE SET phase = excluded.phase, next_read_at_ms = excluded.next_read_at_ms,
                                          reads_when_old = excluded.reads_when_old;

-- name: drop_buckets
DELETE FROM mesh_bucket WHERE inbox = ? AND bucket < ?;
