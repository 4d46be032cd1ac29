-- Messages that were given up (SPEC 5).

-- name: add_letter
-- An entry became a dead letter or a tombstone.
INSERT INTO dead_letter (message_id, lane_id, body_id, size_bytes, kind, priority, created_at_ms, queued_at_ms, ttl_s, message_expires_at_ms, last_error, reason, code, category, state, total_attempts, first_attempt_at_ms, last_attempt_at_ms, first_dead_at_ms, confirmation, moved_at_ms, expires_at_ms, retry_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: load_letter
-- One dead letter by its id, without its body.
SELECT message_id, lane.route, lane.name, body_id, size_bytes, kind, dead_letter.priority, dead_letter.created_at_ms,
       queued_at_ms, ttl_s, message_expires_at_ms, last_error, reason, code, category, state, total_attempts,
       first_attempt_at_ms, last_attempt_at_ms, first_dead_at_ms, confirmation, moved_at_ms, expires_at_ms, retry_at_ms
  FROM dead_letter JOIN lane USING (lane_id)
 WHERE message_id = ?;

-- name: list_letters
-- Dead letters in the order in which they were given up.
SELECT message_id, lane.route, lane.name, body_id, size_bytes, kind, dead_letter.priority, dead_letter.created_at_ms,
       queued_at_ms, ttl_s, message_expires_at_ms, last_error, reason, code, category, state, total_attempts,
       first_attempt_at_ms, last_attempt_at_ms, first_dead_at_ms, confirmation, moved_at_ms, expires_at_ms, retry_at_ms
  FROM dead_letter JOIN lane USING (lane_id)
 ORDER BY moved_at_ms, message_id
 LIMIT :limit;

-- name: load_body
-- The payload of a dead letter.
SELECT payload, sealed_plaintext FROM message_body WHERE body_id = ?;

-- name: remove_letter
-- It was recovered, discarded or has expired.
DELETE FROM dead_letter WHERE message_id = ?;

-- name: remove_body
-- Nothing refers to the payload any more.
DELETE FROM message_body WHERE body_id = ?;

-- name: expired
-- Dead letters whose retention is over.
SELECT message_id FROM dead_letter WHERE expires_at_ms <= ?;

-- name: due_for_retry
-- Dead letters whose daily retry is due, oldest first, so that a lane gets its order back.
SELECT message_id
  FROM dead_letter
 WHERE retry_at_ms IS NOT NULL AND retry_at_ms <= :now_ms AND message_expires_at_ms > :now_ms
 ORDER BY created_at_ms, rowid;

-- name: retriable_in_lane
-- Dead letters of a lane that are retried because mail to its recipient was stored, oldest first.
SELECT message_id
  FROM dead_letter
 WHERE lane_id = ? AND category = 'retriable' AND message_expires_at_ms > ? AND moved_at_ms < ?
 ORDER BY created_at_ms, rowid
 LIMIT ?;

-- name: next_deadline
-- When a dead letter is next deleted or retried.
SELECT min(at_ms)
  FROM (SELECT min(expires_at_ms) AS at_ms FROM dead_letter
        UNION ALL
        SELECT min(retry_at_ms) FROM dead_letter WHERE retry_at_ms IS NOT NULL);
