-- What a node's file holds, for its operator. Sums only: whose mail it is stays unsaid.

-- name: held
SELECT coalesce(sum(blobs), 0), coalesce(sum(bytes), 0), count(*) FROM usage;

-- name: first_stored
SELECT stored_at_ms FROM inbox ORDER BY id LIMIT 1;

-- name: next_expiry
SELECT min(expires_at_ms) FROM inbox;

-- name: expired
SELECT count(*) FROM inbox WHERE expires_at_ms <= :now_ms;

-- name: facts
SELECT coalesce(max(number), 0) FROM journal;
