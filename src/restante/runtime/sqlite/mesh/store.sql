-- Mail of the mesh in a node's file (SPEC 7). The writer's statements first, then those of the reading connection.

-- name: key
-- Counts and the digest of one key, kept up to date with its blobs.
SELECT blobs, bytes, deleted, xor FROM mesh_key WHERE inbox_key = ?;

-- name: set_key
-- New counts and digest of one key.
INSERT INTO mesh_key (inbox_key, blinded, bucket, blobs, bytes, deleted, xor) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (inbox_key) DO UPDATE
       SET blobs = excluded.blobs, bytes = excluded.bytes, deleted = excluded.deleted, xor = excluded.xor;

-- name: drop_key
-- One key that holds neither blobs nor tombstones.
DELETE FROM mesh_key WHERE inbox_key = ?;

-- name: totals
-- Bytes of blobs and records, number of tombstones, for the total of SPEC 6.6.
SELECT (SELECT coalesce(sum(bytes), 0) FROM mesh_key)
     + (SELECT coalesce(sum(length(record)), 0) FROM mesh_record),
       (SELECT coalesce(sum(deleted), 0) FROM mesh_key);

-- name: is_deleted
-- Whether the owner has deleted this blob.
SELECT 1 FROM mesh_tombstone WHERE inbox_key = ? AND payload_hash = ?;

-- name: find
-- The blob with these sealed bytes, if the key holds it.
SELECT id, expires_at_ms FROM mesh_blob WHERE inbox_key = ? AND payload_hash = ?;

-- name: insert
-- One blob.
INSERT INTO mesh_blob (id, inbox_key, payload_hash, expires_at_ms, envelope) VALUES (?, ?, ?, ?, ?);

-- name: prolong
-- The same sealed bytes were put again with a later expiry.
UPDATE mesh_blob SET expires_at_ms = ?, envelope = ? WHERE id = ?;

-- name: delete
-- Blobs of a key by their hashes, a JSON array of hex texts, with what the counts need.
DELETE FROM mesh_blob WHERE inbox_key = ? AND payload_hash IN (SELECT unhex(value) FROM json_each(?))
RETURNING id, inbox_key, payload_hash, length(envelope);

-- name: delete_id
-- One blob by its id, with what the counts need.
DELETE FROM mesh_blob WHERE id = ? RETURNING id, inbox_key, payload_hash, length(envelope);

-- name: buried_of
-- Which of these blobs the owner has deleted before.
SELECT payload_hash FROM mesh_tombstone
 WHERE inbox_key = ? AND payload_hash IN (SELECT unhex(value) FROM json_each(?));

-- name: bury
-- The tombstones of blobs, so that no neighbour brings them back.
INSERT INTO mesh_tombstone (inbox_key, payload_hash) SELECT ?, unhex(value) FROM json_each(?);

-- name: sizes
-- Ids and sizes of the blobs of a key, to count the share of each source.
SELECT id, length(envelope) FROM mesh_blob WHERE inbox_key = ?;

-- name: expired
-- Blobs whose time is over, some at a time.
DELETE FROM mesh_blob
 WHERE id IN (SELECT id FROM mesh_blob WHERE expires_at_ms <= :now_ms LIMIT :limit)
RETURNING id, inbox_key, payload_hash, length(envelope);

-- name: old_blobs
-- Blobs of buckets that ended 30 days ago.
DELETE FROM mesh_blob
 WHERE id IN (SELECT id FROM mesh_blob JOIN mesh_key USING (inbox_key) WHERE bucket < :bucket LIMIT :limit)
RETURNING id, inbox_key, payload_hash, length(envelope);

-- name: old_keys
-- Keys whose tombstones are no longer needed.
SELECT inbox_key FROM mesh_key WHERE bucket < :bucket AND blobs = 0 LIMIT :limit;

-- name: unbury
-- All tombstones of a key.
DELETE FROM mesh_tombstone WHERE inbox_key = ?;

-- name: record
-- The prekey record of a key.
SELECT record FROM mesh_record WHERE record_key = ?;

-- name: record_size
-- How long the record of a key is, and until when it is kept.
SELECT length(record), expires_at_ms FROM mesh_record WHERE record_key = ?;

-- name: put_record
-- A prekey record in place of the one before.
INSERT INTO mesh_record (record_key, expires_at_ms, record_hash, record) VALUES (?, ?, ?, ?)
    ON CONFLICT (record_key) DO UPDATE
       SET expires_at_ms = excluded.expires_at_ms, record_hash = excluded.record_hash, record = excluded.record;

-- name: record_bytes
-- What all prekey records take of the node's total.
SELECT coalesce(sum(length(record)), 0) FROM mesh_record;

-- name: expired_records
-- Prekey records whose time is over.
DELETE FROM mesh_record WHERE expires_at_ms <= :now_ms RETURNING length(record);

-- name: listed
-- What a FETCH lists of one key, in the order of its numbers. The index has all columns.
SELECT id, payload_hash FROM mesh_blob WHERE inbox_key = ? AND id > ? AND expires_at_ms > ? ORDER BY id;

-- name: read
-- One blob that is still valid.
SELECT id, envelope FROM mesh_blob WHERE inbox_key = ? AND payload_hash = ? AND expires_at_ms > ?;

-- name: key_place
-- The blinded key and the bucket of an inbox key.
SELECT blinded, bucket FROM mesh_key WHERE inbox_key = ?;

-- name: summaries
-- What neighbours compare, in the order of keys; a prekey record counts as a key with one hash.
SELECT inbox_key, blobs + deleted, xor FROM mesh_key WHERE inbox_key BETWEEN :low AND :high
 UNION ALL
SELECT record_key, 1, record_hash FROM mesh_record WHERE record_key BETWEEN :low AND :high
 ORDER BY 1 LIMIT :limit;

-- name: live
-- Hashes of what a key holds and serves, in the order of storing.
SELECT payload_hash, id FROM mesh_blob WHERE inbox_key = :key AND expires_at_ms > :now_ms
 UNION ALL
SELECT record_hash, 0 FROM mesh_record WHERE record_key = :key AND expires_at_ms > :now_ms
 ORDER BY 2;

-- name: buried
-- Hashes of what the owner of a key has deleted.
SELECT payload_hash FROM mesh_tombstone WHERE inbox_key = ?;

-- name: scrub
-- Blobs in the order of their ids, to check them against their hashes.
SELECT id, inbox_key, payload_hash, envelope FROM mesh_blob WHERE id > ? ORDER BY id LIMIT ?;

-- name: holdings
-- Numbers of keys, blobs, records and buckets with mail, for status and metrics.
SELECT (SELECT count(*) FROM mesh_key), (SELECT count(*) FROM mesh_blob), (SELECT count(*) FROM mesh_record),
       (SELECT count(DISTINCT bucket) FROM mesh_key WHERE blobs > 0);

-- name: put_peer
-- A node that answered, with the time.
INSERT INTO mesh_peer (node_id, seen_at_ms, descriptor) VALUES (?, ?, ?)
    ON CONFLICT (node_id) DO UPDATE SET seen_at_ms = excluded.seen_at_ms, descriptor = excluded.descriptor;

-- name: forget_peers
-- All peers but those seen last.
DELETE FROM mesh_peer WHERE node_id NOT IN (SELECT node_id FROM mesh_peer ORDER BY seen_at_ms DESC LIMIT ?);

-- name: peers
-- Peers of an earlier run, seen last first.
SELECT descriptor FROM mesh_peer ORDER BY seen_at_ms DESC;
