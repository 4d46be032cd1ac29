-- What a node's file holds, for its operator. Sums only: whose mail it is stays unsaid.

-- name: held
SELECT count(*), coalesce(sum(length(envelope)), 0), count(DISTINCT recipient), min(stored_at_ms), min(expires_at_ms)
  FROM inbox;

-- name: expired
SELECT count(*) FROM inbox WHERE expires_at_ms <= :now_ms;

-- name: facts
SELECT coalesce(max(number), 0) FROM journal;
