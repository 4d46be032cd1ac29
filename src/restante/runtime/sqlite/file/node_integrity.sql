-- What must hold in a node's file between any two transactions.

-- name: mailbox_blobs
-- The next blobs of mailboxes, to compare each with its hash.
SELECT id, recipient, payload_hash, envelope FROM blob WHERE id > ? ORDER BY id LIMIT ?;

-- name: mesh_blobs
-- The next blobs of the mesh, to compare each with its hash.
SELECT id, inbox_key, payload_hash, envelope FROM mesh_blob WHERE id > ? ORDER BY id LIMIT ?;

-- name: records
-- Prekey records, to compare each with its hash.
SELECT record_hash, record FROM mesh_record;

-- name: mailbox_totals
-- Mailboxes whose counts differ from what the index has.
SELECT coalesce(usage.blobs, 0), coalesce(usage.bytes, 0), coalesce(counted.blobs, 0), coalesce(counted.bytes, 0)
  FROM usage FULL JOIN (
       SELECT recipient, count(*) AS blobs, sum(size_bytes) AS bytes FROM blob_index GROUP BY recipient) AS counted
       USING (recipient)
 WHERE (usage.blobs, usage.bytes) IS NOT (counted.blobs, counted.bytes);

-- name: mailbox_index
-- Blobs that the index lacks although it has got that far, and index rows without a blob.
SELECT 'blob ' || id || ' is in no mailbox'
  FROM blob
 WHERE id <= (SELECT through FROM blob_index_state) AND (recipient, id) NOT IN (SELECT recipient, id FROM blob_index)
 UNION ALL
SELECT 'a mailbox lists blob ' || id || ', which is not there' FROM blob_index WHERE id NOT IN (SELECT id FROM blob);

-- name: mesh_totals
-- Keys of the mesh whose counts differ from what is there: blobs, bytes, hashes of deleted blobs.
SELECT coalesce(mesh_key.blobs, 0), coalesce(mesh_key.bytes, 0), coalesce(mesh_key.deleted, 0),
       coalesce(held.blobs, 0), coalesce(held.bytes, 0), coalesce(buried.deleted, 0)
  FROM mesh_key
  FULL JOIN (SELECT inbox_key, count(*) AS blobs, sum(length(envelope)) AS bytes FROM mesh_blob GROUP BY inbox_key) AS held
       USING (inbox_key)
  FULL JOIN (SELECT inbox_key, count(*) AS deleted FROM mesh_tombstone GROUP BY inbox_key) AS buried USING (inbox_key)
 WHERE (coalesce(mesh_key.blobs, 0), coalesce(mesh_key.bytes, 0), coalesce(mesh_key.deleted, 0))
       IS NOT (coalesce(held.blobs, 0), coalesce(held.bytes, 0), coalesce(buried.deleted, 0));

-- name: gaps
-- Numbers that no journal event has, after those that were pruned.
SELECT before + 1, number - 1
  FROM (SELECT number,
               lag(number, 1, coalesce((SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE key = 'pruned_through'), 0))
                   OVER (ORDER BY number) AS before
          FROM journal)
 WHERE number <> before + 1;
