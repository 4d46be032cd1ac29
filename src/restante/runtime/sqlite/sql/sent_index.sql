-- What was delivered lately (SPEC 3.13).

-- name: remember_sent
INSERT OR REPLACE INTO sent_index (message_id, kind, priority, confirmation, ended_at_ms) VALUES (?, ?, ?, ?, ?);

-- name: find_sent
SELECT kind, priority, confirmation FROM sent_index WHERE message_id = ?;

-- name: raise_confirmation
UPDATE sent_index SET confirmation = ? WHERE message_id = ?;

-- name: forget_sent
DELETE FROM sent_index WHERE ended_at_ms <= ?;
