-- What a node's file holds, for its operator. Sums only: whose mail it is stays unsaid.

-- name: held
SELECT coalesce(sum(blobs), 0), coalesce(sum(bytes), 0), count(DISTINCT recipient)
  FROM (SELECT recipient, blobs, bytes FROM usage
        UNION ALL
        SELECT recipient, 1, length(envelope) FROM inbox WHERE id > (SELECT through FROM filing));

-- name: first_stored
SELECT stored_at_ms FROM inbox ORDER BY id LIMIT 1;

-- name: next_expiry
SELECT min(expires_at_ms)
  FROM (SELECT min(expires_at_ms) AS expires_at_ms FROM filed
        UNION ALL
        SELECT expires_at_ms FROM inbox WHERE id > (SELECT through FROM filing));

-- name: expired
SELECT (SELECT count(*) FROM filed WHERE expires_at_ms <= :now_ms)
     + (SELECT count(*) FROM inbox WHERE id > (SELECT through FROM filing) AND expires_at_ms <= :now_ms);

-- name: facts
SELECT coalesce(max(number), 0) FROM journal;
