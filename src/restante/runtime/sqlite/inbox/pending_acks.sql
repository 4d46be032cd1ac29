-- Acknowledgements pending for senders (SPEC 10.3, 10.5). One that would wait longer than the longest delay counts as
-- due: the clock was set back.

-- name: add
-- An acknowledgement that becomes due at `since_ms`.
INSERT INTO pending_ack (number, type, sender, message_id, since_ms) VALUES (?, ?, ?, ?, ?);

-- name: pending
-- Acknowledgements that may leave now, by sender and type: how many, and since when the oldest waits.
SELECT sender, type, count(*), min(since_ms) FROM pending_ack WHERE (since_ms <= ?1 OR since_ms > ?2)
 GROUP BY sender, type ORDER BY min(number);

-- name: next_due
-- When the next delayed acknowledgement may leave.
SELECT min(since_ms) FROM pending_ack WHERE since_ms > ?1 AND since_ms <= ?2;

-- name: first
-- The ids of the next batch to one sender.
SELECT number, message_id FROM pending_ack
 WHERE sender = ?1 AND type = ?2 AND (since_ms <= ?3 OR since_ms > ?4) ORDER BY number LIMIT ?5;

-- name: take
-- The same, no longer pending.
DELETE FROM pending_ack
 WHERE number IN (SELECT number FROM pending_ack
                   WHERE sender = ?1 AND type = ?2 AND (since_ms <= ?3 OR since_ms > ?4) ORDER BY number LIMIT ?5)
RETURNING number, message_id;
