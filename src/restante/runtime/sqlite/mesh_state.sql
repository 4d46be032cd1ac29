-- What a client keeps of the mesh: descriptors of nodes, and which buckets of its inboxes it has read (SPEC 7.1, 7.5).

-- name: nodes
-- The descriptors that the client knew last.
SELECT descriptor FROM mesh_node;

-- name: forget_nodes
-- All descriptors; the new ones follow in the same transaction.
DELETE FROM mesh_node;

-- name: add_node
-- One descriptor.
INSERT INTO mesh_node (descriptor) VALUES (?);

-- name: buckets
-- How far each bucket of an inbox is read, oldest first.
SELECT bucket, phase, next_read_at_ms, reads_when_old FROM mesh_bucket WHERE inbox = ? ORDER BY bucket;

-- name: store_bucket
-- The new state of reading one bucket.
INSERT INTO mesh_bucket (inbox, bucket, phase, next_read_at_ms, reads_when_old) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (inbox, bucket) DO UPDATE SET phase = excluded.phase, next_read_at_ms = excluded.next_read_at_ms,
                                          reads_when_old = excluded.reads_when_old;

-- name: drop_buckets
-- Buckets of an inbox that are too old to hold mail.
DELETE FROM mesh_bucket WHERE inbox = ? AND bucket < ?;
