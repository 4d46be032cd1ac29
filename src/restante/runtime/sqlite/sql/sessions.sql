-- Encrypted sessions (SPEC 8), and which message was sealed for which.

-- name: find
SELECT session, is_ours, continues, left_at_ms, next_sequence, opening, sealed_state
  FROM session WHERE peer = ? AND session_id = ?;

-- name: current
SELECT session_id FROM standing JOIN session USING (session) WHERE standing.peer = ?;

-- name: add
INSERT INTO session (peer, session_id, is_ours, continues, began_at_ms, next_sequence, opening, sealed_state)
VALUES (?, ?, ?, ?, ?, 0, ?, ?);

-- name: store
UPDATE session SET next_sequence = ?, opening = ?, sealed_state = ? WHERE session = ?;

-- name: set_current
INSERT INTO standing (peer, session) VALUES (?, ?) ON CONFLICT (peer) DO UPDATE SET session = excluded.session;

-- name: leave
UPDATE session SET left_at_ms = ? WHERE session = ? AND left_at_ms IS NULL;

-- name: number
INSERT INTO sealed_for (session, sequence, message_id) VALUES (?, ?, ?);

-- name: unnumber
DELETE FROM sealed_for WHERE session = ? AND sequence = ?;

-- name: held
SELECT message_id, sequence, state, last_attempt_at_ms
  FROM sealed_for JOIN entry USING (message_id)
 WHERE session = ? AND sequence BETWEEN ? AND ?
 ORDER BY sequence;

-- name: stranded
-- Messages in flight that are sealed for a session we have left, in the order they were sent in.
SELECT sealed_for.session, session_id, sealed_for.sequence, message_id, state, peer
  FROM session CROSS JOIN sealed_for USING (session) CROSS JOIN entry USING (message_id)
 WHERE left_at_ms IS NOT NULL
 ORDER BY sealed_for.session, sealed_for.sequence;

-- name: session_of
SELECT peer, session_id FROM sealed_for JOIN session USING (session) WHERE message_id = ?;

-- name: reader_of
SELECT peer FROM sealed_for JOIN session USING (session) WHERE message_id = ?;

-- name: sweep_numbers
-- Dead letters keep theirs, for they may be recovered; what was delivered, while it is remembered (SPEC 3.13).
DELETE FROM sealed_for
 WHERE message_id NOT IN (SELECT message_id FROM entry) AND message_id NOT IN (SELECT message_id FROM dead_letter)
   AND message_id NOT IN (SELECT message_id FROM sent_index)
   AND message_id NOT IN (SELECT message_id FROM sent_recent);

-- name: sweep_sessions
DELETE FROM session
 WHERE left_at_ms <= ? AND NOT EXISTS (SELECT 1 FROM sealed_for WHERE sealed_for.session = session.session);

-- name: list
SELECT peer, session_id, is_ours, began_at_ms, left_at_ms, next_sequence, opening IS NOT NULL, standing.session IS NOT NULL,
       (SELECT expected FROM inbox_session WHERE sender = session.peer AND inbox_session.session_id = session.session_id),
       (SELECT phase FROM inbox_session WHERE sender = session.peer AND inbox_session.session_id = session.session_id),
       (SELECT count(*) FROM sealed_for JOIN entry USING (message_id) WHERE sealed_for.session = session.session)
  FROM session LEFT JOIN standing USING (peer, session)
 ORDER BY session DESC;

-- name: load_prekeys
SELECT sealed FROM own_prekeys;

-- name: store_prekeys
INSERT INTO own_prekeys (only, sealed) VALUES (1, ?) ON CONFLICT (only) DO UPDATE SET sealed = excluded.sealed;

-- name: spent
SELECT prekey_id FROM spent_prekey WHERE peer = ?;

-- name: spend
INSERT INTO spent_prekey (peer, prekey_id) VALUES (?, ?) ON CONFLICT DO NOTHING;
