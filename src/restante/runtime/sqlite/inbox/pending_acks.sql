-- Acknowledgements owed to senders (SPEC 10.5).

-- name: owe
INSERT INTO pending_ack (number, type, sender, message_id, since_ms) VALUES (?, ?, ?, ?, ?);

-- name: owed
-- The oldest debt first, then all of the same type to the same sender.
SELECT sender, type, count(*), min(since_ms) FROM pending_ack GROUP BY sender, type ORDER BY min(number);

-- name: first_owed
SELECT number, message_id FROM pending_ack WHERE sender = ? AND type = ? ORDER BY number LIMIT ?;

-- name: take
DELETE FROM pending_ack
 WHERE number IN (SELECT number FROM pending_ack WHERE sender = ? AND type = ? ORDER BY number LIMIT ?)
RETURNING number, message_id;
