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

-- name: add_platform_id
-- The platform accepted a chunk, or the first part of it, under this id.
INSERT INTO platform_message (message_id, platform_message_id, accepted_at_ms) VALUES (?, ?, ?)
    ON CONFLICT (message_id) DO NOTHING;

-- name: find_platform_id
-- The id of a chunk at its platform, for `outbox show`.
SELECT platform_message_id FROM platform_message WHERE message_id = ?;

-- name: prune_platform_ids
-- Forget ids as old as the final states that are forgotten.
DELETE FROM platform_message WHERE accepted_at_ms <= ?;
