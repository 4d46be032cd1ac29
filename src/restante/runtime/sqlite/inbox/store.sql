-- The receiving side (SPEC 9): sessions, buffered messages, released messages.

-- name: totals
-- The counters of the inbox.
SELECT arrivals, places, turns, seen FROM inbox_total;

-- name: save_totals
-- The counters after a batch.
UPDATE inbox_total SET arrivals = ?, places = ?, turns = ?, seen = ?;

-- name: find_session
-- How far a session was released.
SELECT session, phase, expected, missing
  FROM inbox_session
 WHERE sender = ? AND session_id = ?;

-- name: add_session
-- A session of which the first message arrived.
INSERT INTO inbox_session (sender, session_id, phase, expected, missing) VALUES (?, ?, 'flowing', 0, x'');

-- name: save_session
-- How far the session is released after a batch.
UPDATE inbox_session
   SET phase = ?, expected = ?, missing = ?, wake_at_ms = ?
 WHERE session = ?;

-- name: sessions_due
-- Sessions with a gap that is old enough to be skipped.
SELECT sender, session_id FROM inbox_session WHERE wake_at_ms <= ? ORDER BY wake_at_ms, sender, session_id;

-- name: next_wake
-- When the next gap is old enough to be skipped.
SELECT min(wake_at_ms) FROM inbox_session WHERE wake_at_ms IS NOT NULL;

-- name: waiting_in
-- Numbers that wait in a session; a row without plaintext is a placeholder.
SELECT sequence_number, received_at_ms, sealed_plaintext IS NULL FROM reorder_buffer WHERE session = ?;

-- name: add_waiting
-- A message ahead of its turn.
INSERT INTO reorder_buffer (arrival, session, sequence_number, message_id, kind, ttl_type, ttl_s, created_at_ms,
                           received_at_ms, server_timestamp_ms, sealed_plaintext)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: take_waiting
-- A message whose turn has come; it leaves the buffer.
DELETE FROM reorder_buffer WHERE session = ? AND sequence_number = ?
RETURNING arrival, message_id, kind, ttl_type, ttl_s, created_at_ms, received_at_ms, server_timestamp_ms,
          sealed_plaintext;

-- name: discard_waiting
-- A placeholder whose turn has come.
DELETE FROM reorder_buffer WHERE session = ? AND sequence_number = ?;

-- name: add_message
-- A message that the application may see.
INSERT INTO inbox_message (place, arrival, session, sequence_number, message_id, kind, is_late, ttl_type, ttl_s,
                           received_at_ms, server_timestamp_ms, expires_at_ms, sealed_plaintext)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: messages_after
-- What the application sees: every released message that has not expired, in order.
SELECT place, message_id, sender, session_id, sequence_number, kind, sealed_plaintext, received_at_ms,
       server_timestamp_ms,
       NOT EXISTS (SELECT 1 FROM pending_ack WHERE number = arrival),
       first_read_at_ms, acked_at_ms, expires_at_ms, is_late
  FROM inbox_message JOIN inbox_session USING (session)
 WHERE place > :after AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms)
 ORDER BY place
 LIMIT :limit;

-- name: held_back
-- Messages that wait for an earlier one, by session. Rows without a body are placeholders.
SELECT sender, count(*), wake_at_ms
  FROM reorder_buffer JOIN inbox_session USING (session)
 WHERE sealed_plaintext IS NOT NULL AND wake_at_ms IS NOT NULL
 GROUP BY session
 ORDER BY wake_at_ms;

-- name: first_unacked
-- The first message that the application has not processed.
SELECT min(place) FROM inbox_message WHERE acked_at_ms IS NULL;

-- name: mark_acked
-- The application has processed the messages in a JSON array. It has seen them by then at the latest.
UPDATE inbox_message
   SET acked_at_ms = :now_ms, first_read_at_ms = coalesce(first_read_at_ms, :now_ms)
 WHERE place IN (SELECT value FROM json_each(:places)) AND acked_at_ms IS NULL;

-- name: unread
-- A message that was not shown before and has not expired.
SELECT message_id, sender, ttl_type, ttl_s
  FROM inbox_message JOIN inbox_session USING (session)
 WHERE place = :place AND first_read_at_ms IS NULL AND (expires_at_ms IS NULL OR expires_at_ms > :now_ms);

-- name: mark_read
-- The application was shown the message.
UPDATE inbox_message SET first_read_at_ms = :now_ms WHERE place = :place;

-- name: set_expiry
-- When a message with a relative TTL expires, known since it was read.
UPDATE inbox_message SET expires_at_ms = :expires_at_ms WHERE place = :place;

-- name: remove_expired
-- Delete messages that have expired, and return what is journaled of them.
DELETE FROM inbox_message
 WHERE place IN (SELECT place FROM inbox_message WHERE expires_at_ms <= :now_ms ORDER BY expires_at_ms LIMIT :limit)
RETURNING message_id, (SELECT session_id FROM inbox_session WHERE inbox_session.session = inbox_message.session),
          sequence_number, kind, received_at_ms;
