-- What was delivered lately (SPEC 3.13).

-- name: remember_sent
INSERT INTO sent_recent VALUES (NULL,?,?,?,?,?);

-- name: count_recent
-- They are numbered from one whenever all of them were indexed.
SELECT coalesce(max(place), 0) FROM sent_recent;

-- name: recent_ids
SELECT message_id FROM sent_recent;

-- name: index_recent
INSERT OR REPLACE INTO sent_index
SELECT message_id, kind, priority, confirmation, ended_at_ms FROM sent_recent ORDER BY message_id, place;

-- name: forget_recent
DELETE FROM sent_recent;

-- name: find_delivered
-- Indexed or not.
SELECT kind, priority, confirmation FROM delivered WHERE message_id = ?;

-- name: find_sent
SELECT kind, priority, confirmation FROM sent_index WHERE message_id = ?;

-- name: raise_confirmation
UPDATE sent_index SET confirmation = ? WHERE message_id = ?;

-- name: forget_sent
DELETE FROM sent_index WHERE ended_at_ms <= ?;
