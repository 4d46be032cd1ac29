-- The index of a node's blobs (SPEC 6.2). Blobs above `blob_index_state.through` are not indexed yet.

-- name: add
-- Index one blob by recipient and expiry.
INSERT INTO blob_index (recipient, id, expires_at_ms, size_bytes) VALUES (?, ?, ?, ?);

-- name: set_indexed_through
-- Record up to which id blobs are indexed.
UPDATE blob_index_state SET through = ?;

-- name: unindexed
-- Up to which id blobs are indexed, and those above it, oldest first, to rebuild the deferred entries after a start. In
-- one statement, so that no commit comes between. Without such blobs there is one row of NULLs.
SELECT through, recipient, id, expires_at_ms, length(envelope)
  FROM blob_index_state LEFT JOIN blob ON id > through
 ORDER BY id;

-- name: page_sizes
-- Ids and sizes of the next live blobs of a mailbox. An expired one is never served, reaped or not (SPEC 6.3).
SELECT id, size_bytes
  FROM blob_index
 WHERE recipient = :recipient AND id > :after AND expires_at_ms > :now_ms
 ORDER BY id
 LIMIT :limit;
