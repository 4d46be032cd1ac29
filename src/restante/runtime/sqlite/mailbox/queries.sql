-- What a node's file holds, for its operator. Sums only: whose mail it is stays unsaid.

-- name: held
SELECT coalesce(sum(blobs), 0), coalesce(sum(bytes), 0), count(DISTINCT recipient)
  FROM (SELECT recipient, blobs, bytes FROM usage
        UNION ALL
        SELECT recipient, 1, length(envelope) FROM blob WHERE id > (SELECT through FROM blob_index_state));

-- name: first_stored
SELECT stored_at_ms FROM blob ORDER BY id LIMIT 1;

-- name: next_expiry
SELECT min(expires_at_ms)
  FROM (SELECT min(expires_at_ms) AS expires_at_ms FROM blob_index
        UNION ALL
        SELECT expires_at_ms FROM blob WHERE id > (SELECT through FROM blob_index_state));

-- name: expired
SELECT (SELECT count(*) FROM blob_index WHERE expires_at_ms <= :now_ms)
     + (SELECT count(*) FROM blob WHERE id > (SELECT through FROM blob_index_state) AND expires_at_ms <= :now_ms);

-- name: facts
SELECT coalesce(max(number), 0) FROM journal;
