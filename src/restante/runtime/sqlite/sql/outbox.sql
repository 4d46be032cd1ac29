-- The outbox (SPEC 3). Only states change here; what a change means is decided in core/outbox.

-- name: is_known
-- In flight, given up, or expired and kept as a tombstone.
SELECT EXISTS (SELECT 1 FROM outbox WHERE message_id = :message_id)
    OR EXISTS (SELECT 1 FROM dead_letter WHERE message_id = :message_id);

-- name: add_entry
INSERT INTO outbox (message_id, route, lane, kind, priority, created_at_ms, queued_at_ms, ttl_s, expires_at_ms,
                    next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms, last_error,
                    first_attempt_at_ms, last_attempt_at_ms, was_sent, reencrypted, confirmation)
VALUES (:message_id, :route, :lane, :kind, :priority, :created_at_ms, :queued_at_ms, :ttl_s, :expires_at_ms,
        :next_attempt_at_ms, :attempts, :state, :lease_owner, :lease_until_ms, :last_error,
        :first_attempt_at_ms, :last_attempt_at_ms, :was_sent, :reencrypted, :confirmation);

-- name: add_body
INSERT INTO outbox_body (insertion, payload, sealed_plaintext) VALUES (:insertion, :payload, :sealed_plaintext);

-- name: load_entry
SELECT o.insertion, message_id, route, lane, kind, priority, created_at_ms, queued_at_ms, ttl_s, expires_at_ms,
       next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms, last_error,
       first_attempt_at_ms, last_attempt_at_ms, was_sent, reencrypted, confirmation, payload, sealed_plaintext
  FROM outbox AS o JOIN outbox_body USING (insertion)
 WHERE message_id = :message_id;

-- name: store_state
UPDATE outbox
   SET queued_at_ms = :queued_at_ms, expires_at_ms = :expires_at_ms, next_attempt_at_ms = :next_attempt_at_ms,
       attempts = :attempts, state = :state, lease_owner = :lease_owner, lease_until_ms = :lease_until_ms,
       last_error = :last_error, first_attempt_at_ms = :first_attempt_at_ms,
       last_attempt_at_ms = :last_attempt_at_ms, was_sent = :was_sent, reencrypted = :reencrypted,
       confirmation = :confirmation
 WHERE message_id = :message_id;

-- name: next_due
-- policy/outbox_order.sendable_now as a query: on the mesh each for itself, elsewhere nothing passes an earlier unsent
-- entry of its lane (SPEC 3.4). Expired entries hold nobody up; they are still chosen, to be ended (SPEC 3.3).
SELECT message_id
  FROM outbox AS chosen
 WHERE state = 'pending'
   AND next_attempt_at_ms <= :now_ms
   AND (route = 'mesh'
        OR NOT EXISTS (SELECT 1
                         FROM outbox AS earlier
                        WHERE earlier.route = chosen.route AND earlier.lane = chosen.lane
                          AND earlier.state IN ('pending', 'sending') AND earlier.insertion < chosen.insertion
                          AND earlier.was_sent = 0 AND earlier.expires_at_ms > :now_ms))
 ORDER BY priority DESC, created_at_ms, insertion
 LIMIT 1;

-- name: next_wake
-- When an entry that now waits, or a lease that may lapse, next needs attention.
SELECT min(CASE state WHEN 'pending' THEN next_attempt_at_ms ELSE lease_until_ms END)
  FROM outbox
 WHERE insertion IN (SELECT min(insertion) FROM outbox WHERE state IN ('pending', 'sending') GROUP BY route, lane);

-- name: to_sweep
-- Only entries whose time may have come: what is chosen here is loaded whole.
SELECT message_id
  FROM outbox
 WHERE (state IN ('pending', 'sent') AND expires_at_ms <= :now_ms)
    OR (state IN ('pending', 'sent') AND route = 'relay' AND queued_at_ms <= :link_rows_before_ms
        AND kind IN (SELECT value FROM json_each(:link_kinds)))
    OR (state = 'pending' AND was_sent = 0
        AND queued_at_ms <= CASE priority WHEN 2 THEN :high_before_ms
                                          WHEN 1 THEN :normal_before_ms
                                          ELSE :low_before_ms END)
    OR (state = 'sending' AND lease_until_ms <= :now_ms);

-- name: remove_entry
DELETE FROM outbox WHERE message_id = :message_id;

-- name: bury_letter
INSERT INTO dead_letter (message_id, reason, code, category, total_attempts, moved_at_ms, expires_at_ms,
                         payload, sealed_plaintext)
VALUES (:message_id, :reason, :code, :category, :total_attempts, :moved_at_ms, :expires_at_ms,
        :payload, :sealed_plaintext);

-- name: count_by_state
SELECT state, count(*) FROM outbox GROUP BY state;

-- name: held
SELECT count(*), coalesce(sum(length(payload)), 0) FROM outbox_body;

-- name: count_pending
SELECT count(*) FROM outbox WHERE route = :route AND lane = :lane AND state = 'pending';

-- name: oldest_pending
SELECT message_id
  FROM outbox
 WHERE route = :route AND lane = :lane AND state = 'pending'
 ORDER BY created_at_ms, insertion
 LIMIT :limit;

-- name: next_sequence
-- The number of the next message to a peer; the first message begins the session.
INSERT INTO outgoing_session (peer, session_id, next_sequence) VALUES (:peer, :session_id, 1)
    ON CONFLICT (peer) DO UPDATE SET next_sequence = next_sequence + 1
RETURNING session_id, next_sequence - 1;
