-- Mail of people who are no contacts, as it came, and whom the user has blocked.

-- name: usage
SELECT count(DISTINCT sender), coalesce(sum(length(envelope)), 0), coalesce(sum(sender = ?), 0) FROM request;

-- name: add
INSERT INTO request (sender, payload_hash, received_at_ms, stored_at_ms, envelope) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (payload_hash) DO NOTHING;

-- name: is_known
SELECT 1 FROM request WHERE payload_hash = ?;

-- name: list
SELECT sender, count(*), sum(length(envelope)), min(received_at_ms), max(received_at_ms)
  FROM request GROUP BY sender ORDER BY min(received_at_ms), sender;

-- name: of_sender
SELECT request, stored_at_ms, envelope FROM request WHERE sender = ? ORDER BY request;

-- name: forget
DELETE FROM request WHERE sender = ?;

-- name: sweep
DELETE FROM request WHERE received_at_ms <= ?;

-- name: senders
SELECT DISTINCT sender FROM request;

-- name: block
INSERT INTO blocked_sender (sender, blocked_at_ms) VALUES (?, ?) ON CONFLICT (sender) DO NOTHING;

-- name: is_blocked
SELECT 1 FROM blocked_sender WHERE sender = ?;
