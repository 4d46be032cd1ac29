-- Mail of people who are no contacts, as it came, and whom the user has blocked.

-- name: usage
-- Number of senders, bytes of all requests, and messages of one sender: what the limits are checked against.
SELECT count(DISTINCT sender), coalesce(sum(length(envelope)), 0), coalesce(sum(sender = ?), 0) FROM request;

-- name: add
-- One message of a sender who is no contact; the same sealed bytes count once.
INSERT INTO request (sender, payload_hash, received_at_ms, stored_at_ms, envelope) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (payload_hash) DO NOTHING;

-- name: is_known
-- Whether these sealed bytes are kept already.
SELECT 1 FROM request WHERE payload_hash = ?;

-- name: list
-- Every sender with the number, the bytes and the times of its messages, the longest waiting first.
SELECT sender, count(*), sum(length(envelope)), min(received_at_ms), max(received_at_ms)
  FROM request GROUP BY sender ORDER BY min(received_at_ms), sender;

-- name: of_sender
-- The messages of one sender in the order in which they came.
SELECT request, stored_at_ms, envelope FROM request WHERE sender = ? ORDER BY request;

-- name: forget
-- All messages of one sender.
DELETE FROM request WHERE sender = ?;

-- name: sweep
-- Messages that waited for too long.
DELETE FROM request WHERE received_at_ms <= ?;

-- name: senders
-- Every sender of whom messages are kept.
SELECT DISTINCT sender FROM request;

-- name: block
-- One sender whose mail is not kept any more.
INSERT INTO blocked_sender (sender, blocked_at_ms) VALUES (?, ?) ON CONFLICT (sender) DO NOTHING;

-- name: is_blocked
-- Whether the mail of a sender is not kept.
SELECT 1 FROM blocked_sender WHERE sender = ?;
