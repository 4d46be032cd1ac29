-- Encrypted sessions (SPEC 8), and which message was sealed for which.

-- name: find
SELECT session, is_initiator, continues, retired_at_ms, next_sequence, opening, sealed_state
  FROM session WHERE peer = ? AND session_id = ?;

-- name: current
SELECT session_id FROM standing JOIN session USING (session) WHERE standing.peer = ?;

-- name: add
INSERT INTO session (peer, session_id, is_initiator, continues, began_at_ms, next_sequence, opening, sealed_state)
VALUES (?, ?, ?, ?, ?, 0, ?, ?);

-- name: store
UPDATE session SET next_sequence = ?, opening = ?, sealed_state = ? WHERE session = ?;

-- name: set_current
INSERT INTO standing (peer, session) VALUES (?, ?) ON CONFLICT (peer) DO UPDATE SET session = excluded.session;

-- name: leave
UPDATE session SET retired_at_ms = ? WHERE session = ? AND retired_at_ms IS NULL;

-- name: number
INSERT INTO session_message (session, sequence, message_id) VALUES (?, ?, ?);

-- name: clear_sequence
DELETE FROM session_message WHERE session = ? AND sequence = ?;

-- name: held
SELECT message_id, sequence, state, last_attempt_at_ms
  FROM session_message JOIN outbox USING (message_id)
 WHERE session = ? AND sequence BETWEEN ? AND ?
 ORDER BY sequence;

-- name: stranded
-- Messages in flight that are sealed for a session we have left, in the order they were sent in.
SELECT session_message.session, session_id, session_message.sequence, message_id, state, peer
  FROM session CROSS JOIN session_message USING (session) CROSS JOIN outbox USING (message_id)
 WHERE retired_at_ms IS NOT NULL
 ORDER BY session_message.session, session_message.sequence;

-- name: session_of
SELECT peer, session_id FROM session_message JOIN session USING (session) WHERE message_id = ?;

-- name: reader_of
SELECT peer FROM session_message JOIN session USING (session) WHERE message_id = ?;

-- name: sweep_numbers
-- Dead letters keep theirs, for they may be recovered; what was delivered, while it is remembered (SPEC 3.13).
DELETE FROM session_message
 WHERE message_id NOT IN (SELECT message_id FROM outbox) AND message_id NOT IN (SELECT message_id FROM dead_letter)
   AND message_id NOT IN (SELECT message_id FROM delivered_index);

-- name: sweep_sessions
DELETE FROM session
 WHERE retired_at_ms <= ? AND NOT EXISTS (SELECT 1 FROM session_message WHERE session_message.session = session.session);

-- name: list
SELECT peer, session_id, is_initiator, began_at_ms, retired_at_ms, next_sequence, opening IS NOT NULL, standing.session IS NOT NULL,
       (SELECT expected FROM inbox_session WHERE sender = session.peer AND inbox_session.session_id = session.session_id),
       (SELECT phase FROM inbox_session WHERE sender = session.peer AND inbox_session.session_id = session.session_id),
       (SELECT count(*) FROM session_message JOIN outbox USING (message_id) WHERE session_message.session = session.session)
  FROM session LEFT JOIN standing USING (peer, session)
 ORDER BY session DESC;

-- name: load_prekeys
SELECT sealed FROM own_prekeys;

-- name: store_prekeys
INSERT INTO own_prekeys (only, sealed) VALUES (1, ?) ON CONFLICT (only) DO UPDATE SET sealed = excluded.sealed;

-- name: spent
SELECT prekey_id FROM used_prekey WHERE peer = ?;

-- name: spend
INSERT INTO used_prekey (peer, prekey_id) VALUES (?, ?) ON CONFLICT DO NOTHING;
