-- Messages that were given up (SPEC 5).

-- name: add_letter
INSERT INTO dead_letter (message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, queued_at_ms,
                         ttl_s, message_expires_at_ms, last_error, reason, code, category, state, total_attempts,
                         first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, confirmation, moved_at_ms,
                         expires_at_ms, retry_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: load_letter
SELECT message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, queued_at_ms, ttl_s,
       message_expires_at_ms, last_error, reason, code, category, state, total_attempts, first_attempt_at_ms,
       last_attempt_at_ms, first_buried_at_ms, confirmation, moved_at_ms, expires_at_ms, retry_at_ms
  FROM dead_letter
 WHERE message_id = ?;

-- name: list_letters
SELECT message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, queued_at_ms, ttl_s,
       message_expires_at_ms, last_error, reason, code, category, state, total_attempts, first_attempt_at_ms,
       last_attempt_at_ms, first_buried_at_ms, confirmation, moved_at_ms, expires_at_ms, retry_at_ms
  FROM dead_letter
 ORDER BY moved_at_ms, message_id
 LIMIT :limit;

-- name: load_body
SELECT payload, sealed_plaintext FROM body WHERE body_id = ?;

-- name: remove_letter
DELETE FROM dead_letter WHERE message_id = ?;

-- name: remove_body
DELETE FROM body WHERE body_id = ?;

-- name: expired
SELECT message_id FROM dead_letter WHERE expires_at_ms <= ?;

-- name: due_for_retry
-- Oldest first, so that a lane comes back in its order. What expired while nobody tidied cannot be recovered any more.
SELECT message_id
  FROM dead_letter
 WHERE retry_at_ms IS NOT NULL AND retry_at_ms <= :now_ms AND message_expires_at_ms > :now_ms
 ORDER BY created_at_ms, rowid;

-- name: next_tidy
SELECT min(at_ms)
  FROM (SELECT min(expires_at_ms) AS at_ms FROM dead_letter
        UNION ALL
        SELECT min(retry_at_ms) FROM dead_letter WHERE retry_at_ms IS NOT NULL);
