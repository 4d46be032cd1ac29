-- The receiving side (SPEC 9).

-- name: known_hash
SELECT payload_hash FROM seen WHERE dedup_key = :dedup_key;

-- name: remember
INSERT INTO seen (dedup_key, payload_hash, seen_at_ms) VALUES (:dedup_key, :payload_hash, :seen_at_ms);

-- name: expected
SELECT expected FROM incoming_session WHERE sender = :sender AND session_id = :session_id;

-- name: waiting
SELECT sequence_number
  FROM inbox
 WHERE sender = :sender AND session_id = :session_id AND sequence_number >= :expected;

-- name: advance_session
INSERT INTO incoming_session (sender, session_id, expected) VALUES (:sender, :session_id, :expected)
    ON CONFLICT (sender, session_id) DO UPDATE SET expected = excluded.expected;

-- name: add_message
INSERT INTO inbox (message_id, sender, session_id, sequence_number, kind, sealed_plaintext,
                   received_at_ms, server_timestamp_ms)
VALUES (:message_id, :sender, :session_id, :sequence_number, :kind, :sealed_plaintext,
        :received_at_ms, :server_timestamp_ms);

-- name: release
-- Hands a message on: `released` grows by one with each, across all sessions.
UPDATE inbox
   SET released = (SELECT coalesce(max(released), 0) + 1 FROM inbox)
 WHERE sender = :sender AND session_id = :session_id AND sequence_number = :sequence_number
RETURNING message_id, kind, sealed_plaintext, received_at_ms;

-- name: released_after
-- What the application sees: everything that was handed on, in that order, but our own control messages.
SELECT released, message_id, sender, session_id, sequence_number, sealed_plaintext, received_at_ms,
       server_timestamp_ms, ack_sent, first_read_at_ms
  FROM inbox
 WHERE released > :after AND kind <> 'control'
 ORDER BY released
 LIMIT :limit;

-- name: owe_receipt
INSERT INTO owed_receipt (message_id, sender, since_ms) VALUES (:message_id, :sender, :since_ms);

-- name: owed_receipts
-- The oldest debt first, then all to the same sender.
SELECT sender, count(*), min(since_ms) FROM owed_receipt GROUP BY sender ORDER BY min(number);

-- name: take_owed
DELETE FROM owed_receipt
 WHERE number IN (SELECT number FROM owed_receipt WHERE sender = :sender ORDER BY number LIMIT :limit)
RETURNING message_id;

-- name: mark_acked
UPDATE inbox SET ack_sent = 1 WHERE sender = :sender AND message_id = :message_id;
