-- Where a relay's blobs are found (SPEC 6.2). Blobs above `filing.through` are not filed yet.

-- name: file
INSERT INTO blob_index (recipient, id, expires_at_ms, size_bytes) VALUES (?, ?, ?, ?);

-- name: filed_through
UPDATE blob_index_state SET through = ?;

-- name: unfiled
SELECT recipient, id, expires_at_ms, length(envelope) FROM blob WHERE id > (SELECT through FROM blob_index_state) ORDER BY id;

-- name: page_sizes
-- An expired blob is never served, swept or not (SPEC 6.3).
SELECT id, size_bytes
  FROM blob_index
 WHERE recipient = :recipient AND id > :after AND expires_at_ms > :now_ms
 ORDER BY id
 LIMIT :limit;
