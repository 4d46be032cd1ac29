-- The outbox (SPEC 3). Only states change here; what a change means is decided in core/outbox.

-- name: add_body
INSERT INTO body (payload, sealed_plaintext) VALUES (?, ?);

-- name: add_entry
INSERT INTO outbox (message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
                    queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
                    last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted,
                    confirmation, turn, attention_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: is_known
-- Whether an id was given to an earlier message: waiting, given up, or delivered in the last 30 days.
SELECT EXISTS (SELECT 1 FROM outbox WHERE message_id = ?1)
    OR EXISTS (SELECT 1 FROM dead_letter WHERE message_id = ?1)
    OR EXISTS (SELECT 1 FROM sent_index WHERE message_id = ?1);

-- name: load_entry
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation
  FROM outbox
 WHERE message_id = ?;

-- name: load_body
SELECT payload, sealed_plaintext FROM body WHERE body_id = ?;

-- name: store_state
UPDATE outbox
   SET queued_at_ms = ?, expires_at_ms = ?, next_attempt_at_ms = ?, attempts = ?, state = ?, lease_owner = ?,
       lease_until_ms = ?, last_error = ?, first_attempt_at_ms = ?, last_attempt_at_ms = ?, first_buried_at_ms = ?,
       was_sent = ?, reencrypted = ?, confirmation = ?, turn = ?, attention_at_ms = ?
 WHERE insertion = ?;

-- name: store_payload
UPDATE body SET payload = ? WHERE body_id = ?;

-- name: store_size
UPDATE outbox SET size_bytes = ? WHERE insertion = ?;

-- name: remove_entry
DELETE FROM outbox WHERE insertion = ?;

-- name: remove_body
DELETE FROM body WHERE body_id = ?;

-- name: wake_due
-- Entries whose wait is over can be chosen from now on.
UPDATE outbox SET turn = 1 WHERE turn = 0 AND next_attempt_at_ms <= :now_ms;

-- name: wait_again
-- Entries that were woken too early; rare, so it needs no index of its own.
UPDATE outbox SET turn = 0 WHERE turn = 1 AND next_attempt_at_ms > :now_ms;

-- name: ready
-- The order of choice (SPEC 3.3). Lanes that are down are passed over; a strict lane has at most one entry here.
SELECT message_id, lane, priority, created_at_ms, insertion, next_attempt_at_ms
  FROM outbox
 WHERE turn = 1 AND route = :route AND lane NOT IN (SELECT value FROM json_each(:lanes_down))
 ORDER BY priority DESC, created_at_ms, insertion
 LIMIT :limit;

-- name: head_of_lane
-- Only in strict lanes; the index knows no others.
SELECT message_id
  FROM outbox
 WHERE route = ? AND lane = ? AND was_sent = 0 AND route <> 'mesh'
 ORDER BY insertion
 LIMIT 1;

-- name: give_turn
UPDATE outbox SET turn = next_attempt_at_ms <= :now_ms WHERE message_id = :message_id AND turn IS NULL AND state = 'pending';

-- name: next_wake
-- When a waiting entry can be chosen again, or time alone changes one.
SELECT min(at_ms)
  FROM (SELECT min(next_attempt_at_ms) AS at_ms FROM outbox WHERE turn = 0
        UNION ALL
        SELECT min(attention_at_ms) FROM outbox);

-- name: to_sweep
SELECT message_id FROM outbox WHERE attention_at_ms <= :now_ms ORDER BY attention_at_ms LIMIT :limit;

-- name: totals
SELECT entries, bytes FROM outbox_total;

-- name: pending_in_lane
SELECT pending FROM lane_total WHERE route = ? AND lane = ?;

-- name: oldest_pending
SELECT message_id
  FROM outbox
 WHERE route = ? AND lane = ? AND was_sent = 0 AND route <> 'mesh' AND state = 'pending'
 ORDER BY created_at_ms, insertion
 LIMIT ?;

-- name: count_by_state
SELECT state, count(*) FROM outbox GROUP BY state;

-- name: list_entries
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation
  FROM outbox
 ORDER BY insertion
 LIMIT :limit;

-- name: next_sequence
-- The number of the next message to a peer; the first message begins the session.
INSERT INTO outgoing_session (peer, session_id, next_sequence) VALUES (:peer, :session_id, 1)
    ON CONFLICT (peer) DO UPDATE SET next_sequence = next_sequence + 1
RETURNING session_id, next_sequence - 1;
