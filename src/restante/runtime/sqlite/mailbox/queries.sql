-- What a node's file holds, for its operator. Sums only, so that no recipient is shown.

-- name: held
-- Blobs, bytes and mailboxes in the store.
SELECT coalesce(sum(blobs), 0), coalesce(sum(bytes), 0), count(DISTINCT recipient)
  FROM (SELECT recipient, blobs, bytes FROM usage
        UNION ALL
        SELECT recipient, 1, length(envelope) FROM blob WHERE id > (SELECT through FROM blob_index_state));

-- name: first_stored
-- When the oldest blob was stored.
SELECT stored_at_ms FROM blob ORDER BY id LIMIT 1;

-- name: next_expiry
-- When the next blob expires.
SELECT min(expires_at_ms)
  FROM (SELECT min(expires_at_ms) AS expires_at_ms FROM blob_index
        UNION ALL
        SELECT expires_at_ms FROM blob WHERE id > (SELECT through FROM blob_index_state));

-- name: expired
-- Blobs that have expired and are not reaped yet.
SELECT (SELECT count(*) FROM blob_index WHERE expires_at_ms <= :now_ms)
     + (SELECT count(*) FROM blob WHERE id > (SELECT through FROM blob_index_state) AND expires_at_ms <= :now_ms);

-- name: last_event
-- The number of the newest journal event.
SELECT coalesce(max(number), 0) FROM journal;
