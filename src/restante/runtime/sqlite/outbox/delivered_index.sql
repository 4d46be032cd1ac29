-- The final state of every message for 30 days (SPEC 3.13).

-- name: add
-- A message has ended. One that is discarded after its end keeps the first row.
INSERT INTO delivered_index VALUES (?, ?, ?, ?, ?, ?);

-- name: find
-- How a message ended, for `status`, repeated ids and late READ acks.
SELECT kind, priority, state, confirmation, ended_at_ms FROM delivered_index WHERE message_id = ?;

-- name: raise_confirmation
-- A READ ack came for a delivered message.
UPDATE delivered_index SET confirmation = ? WHERE message_id = ?;

-- name: prune
-- Forget what ended more than 30 days ago.
DELETE FROM delivered_index WHERE ended_at_ms <= ?;
