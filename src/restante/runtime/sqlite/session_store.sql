-- Encrypted sessions (SPEC 8), what the rules of SPEC 8.7 remember, and which message was encrypted in which session.

-- name: find
-- One session with its keys, for encrypting or decrypting in it.
SELECT session, generation, is_initiator, next_sequence, opening, sealed_state
  FROM session WHERE peer = ? AND session_id = ? AND is_deleted = 0;

-- name: sessions_of
-- What the rules know of every session with a peer.
SELECT session_id, generation, is_initiator, is_read, is_confirmed
  FROM session WHERE peer = ? AND is_deleted = 0 ORDER BY session_id;

-- name: load_peer
-- What the rules remember about a peer besides its sessions.
SELECT highest_generation, unread, question_allowed_at_ms, question_delay_ms, question_generation,
       opening_allowed_at_ms, opening_delay_ms, opening_generation, day, openings, reencrypted_bytes
  FROM peer WHERE peer = ?;

-- name: store_peer
-- The same, written after a step of the rules.
INSERT OR REPLACE INTO peer
    (peer, highest_generation, unread, question_allowed_at_ms, question_delay_ms, question_generation,
     opening_allowed_at_ms, opening_delay_ms, opening_generation, day, openings, reencrypted_bytes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: peers
-- Every peer that the rules remember something about: for a client that was restored.
SELECT peer FROM peer ORDER BY peer;

-- name: peers_with_unread
-- Peers whose unreadable messages are still to be asked for.
SELECT peer FROM peer WHERE length(unread) > 0 ORDER BY peer;

-- name: add
-- A session as its handshake, or its first message, left it. One that was deleted before keeps its numbers.
INSERT INTO session (peer, session_id, generation, is_initiator, is_read, is_confirmed, began_at_ms, next_sequence,
                     opening, sealed_state)
VALUES (?, ?, ?, ?, 0, 0, ?, 0, ?, ?)
    ON CONFLICT (peer, session_id) DO UPDATE
   SET is_deleted = 0, is_read = 0, is_confirmed = 0, retired_at_ms = NULL, opening = excluded.opening,
       sealed_state = excluded.sealed_state
RETURNING session, next_sequence;

-- name: store
-- The ratchet after the messages of a transaction.
UPDATE session SET next_sequence = ?, opening = ?, sealed_state = ? WHERE session = ?;

-- name: mark_read
-- The peer was read in the session.
UPDATE session SET is_read = ?, is_confirmed = ? WHERE peer = ? AND session_id = ?;

-- name: delete
-- The keys of the session are gone; nothing can be read or sent in it.
UPDATE session SET is_deleted = 1, opening = NULL, sealed_state = x'', retired_at_ms = coalesce(retired_at_ms, ?)
 WHERE peer = ? AND session_id = ?;

-- name: retire_others
-- All sessions with the peer but the current one are only read from now on.
UPDATE session SET retired_at_ms = ? WHERE peer = ? AND session_id <> ? AND retired_at_ms IS NULL;

-- name: unretire
-- The session is current.
UPDATE session SET retired_at_ms = NULL WHERE peer = ? AND session_id = ? AND retired_at_ms IS NOT NULL;

-- name: number
-- The message has this number of the session.
INSERT INTO session_message (session, sequence, message_id, payload_hash) VALUES (?, ?, ?, ?);

-- name: clear_sequence
-- The message is encrypted again in another session: nothing is sent under this number any more.
DELETE FROM session_message WHERE message_id = ? RETURNING sequence;

-- name: held
-- Messages in flight with these numbers, for a retransmit request.
SELECT message_id, sequence, state, last_attempt_at_ms
  FROM session_message JOIN outbox USING (message_id)
 WHERE session = ? AND sequence BETWEEN ? AND ?
 ORDER BY sequence;

-- name: owed
-- Mail to the peer without a receipt, with its latest envelope, oldest session first. What is to be encrypted again
-- anyway is left out.
SELECT message_id, payload_hash, session_id, generation, size_bytes
  FROM session JOIN session_message USING (session) JOIN outbox USING (message_id)
 WHERE peer = ? AND kind <> 'control' AND is_wanted = 0
 ORDER BY session_message.session, session_message.sequence;

-- name: want
-- The message is to be encrypted again in the current session.
UPDATE session_message SET is_wanted = 1 WHERE message_id = ?;

-- name: wanted
-- Messages to encrypt again that are not being sent right now.
SELECT message_id, peer
  FROM session_message JOIN outbox USING (message_id) JOIN session USING (session)
 WHERE is_wanted = 1 AND state <> 'sending'
 ORDER BY session_message.session, session_message.sequence;

-- name: mark_waiting
-- The message has no sealed bytes now: the next lease encrypts it.
UPDATE session_message SET is_wanted = 2 WHERE message_id = ?;

-- name: recipient_of
-- To whom a message was sent; nothing for one that is unknown or not ours.
SELECT peer FROM session_message JOIN session USING (session) WHERE message_id = ?;

-- name: sweep_numbers
-- Forget the numbers of messages that have ended. Dead letters keep theirs, since they may be recovered, and delivered
-- messages while their final state is kept (SPEC 3.13).
DELETE FROM session_message
 WHERE message_id NOT IN (SELECT message_id FROM outbox) AND message_id NOT IN (SELECT message_id FROM dead_letter)
   AND message_id NOT IN (SELECT message_id FROM delivered_index);

-- name: expired
-- Sessions that were retired so long ago that none of their keys is kept.
SELECT peer, session_id FROM session WHERE retired_at_ms <= ? AND is_deleted = 0;

-- name: sweep_deleted
-- Deleted sessions that no message names any more.
DELETE FROM session
 WHERE is_deleted = 1
   AND NOT EXISTS (SELECT 1 FROM session_message WHERE session_message.session = session.session);

-- name: list
-- Every session for display, the newest first; nothing sealed is read.
SELECT peer, session_id, generation, is_initiator, is_read, is_confirmed, began_at_ms, retired_at_ms, next_sequence,
       (SELECT expected FROM inbox_session WHERE sender = session.peer AND inbox_session.session_id = session.session_id),
       (SELECT phase FROM inbox_session WHERE sender = session.peer AND inbox_session.session_id = session.session_id),
       (SELECT count(*) FROM session_message JOIN outbox USING (message_id) WHERE session_message.session = session.session)
  FROM session
 WHERE is_deleted = 0
 ORDER BY session DESC;

-- name: load_prekeys
-- Our own prekeys, sealed.
SELECT sealed FROM own_prekeys;

-- name: store_prekeys
-- Our own prekeys after a renewal or after one was used.
INSERT INTO own_prekeys (only, sealed) VALUES (1, ?) ON CONFLICT (only) DO UPDATE SET sealed = excluded.sealed;

-- name: spent
-- One-time prekeys of a peer that we have used.
SELECT prekey_id FROM used_prekey WHERE peer = ?;

-- name: spend
-- We used this one-time prekey of a peer.
INSERT INTO used_prekey (peer, prekey_id) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: told_keys
-- Our newest prekey that a peer was told, and which places.
SELECT told_prekey_id, told_places FROM peer_prekeys WHERE peer = ?;

-- name: set_told_keys
-- A peer was told of this prekey and these places of ours.
INSERT INTO peer_prekeys (peer, told_prekey_id, told_places) VALUES (?, ?, ?)
    ON CONFLICT (peer) DO UPDATE SET told_prekey_id = excluded.told_prekey_id, told_places = excluded.told_places;

-- name: bundle_of
-- The newest prekey bundle of a peer, from a session or the mesh.
SELECT bundle FROM peer_prekeys WHERE peer = ? AND bundle IS NOT NULL;

-- name: set_bundle
-- A peer has a newer bundle.
INSERT INTO peer_prekeys (peer, told_prekey_id, bundle) VALUES (?, 0, ?)
    ON CONFLICT (peer) DO UPDATE SET bundle = excluded.bundle;
