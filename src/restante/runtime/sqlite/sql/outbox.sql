-- The outbox (SPEC 3). Only states change here; what a change means is decided in core/outbox.

-- name: add_body
-- All that a send writes. Every column in its order: a statement is looked up by its text for each row.
INSERT INTO body VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: journal_arrivals
-- What the rows of arrivals have told by themselves goes to the journal when they are filed.
INSERT INTO journal (number, at_ms, kind, message_id, session_tag, sequence, payload_hash, size_bytes, message_kind,
                     priority, ttl_s)
SELECT body_id, queued_at_ms, 'accepted', message_id, session_tag, sequence, payload_hash, size_bytes, kind,
       priority, ttl_s
  FROM body
 WHERE body_id > ?;

-- name: file_arrivals
-- Arrivals become entries. Those of strict lanes have no turn yet: the head of each lane is given one next. In their
-- order, not in that of their ids: one block of ids stays in the cache, and all else is written at its end.
INSERT INTO outbox (insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
                    queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, was_sent, reencrypted,
                    confirmation, turn, attention_at_ms)
SELECT body_id, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, 0, 'pending', 0, 0,
       0, CASE WHEN route = 'mesh' THEN next_attempt_at_ms <= ?1 END, attention_at_ms
  FROM body
 WHERE body_id > ?2;

-- name: last_body
SELECT max(body_id) FROM body;

-- name: count_arrivals
SELECT route, lane, count(*), sum(size_bytes), max(priority), min(created_at_ms), min(attention_at_ms)
  FROM body
 WHERE body_id > ?
 GROUP BY route, lane;

-- name: add_entry
INSERT INTO outbox (insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
                    queued_at_ms, expires_at_ms, first_buried_at_ms, attention_at_ms,
                    next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms, last_error,
                    first_attempt_at_ms, last_attempt_at_ms, was_sent, reencrypted, confirmation, turn)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: blocks
SELECT block FROM outbox_block;

-- name: is_known
-- Whether an id was given to a message that waits or was given up; the sent-index knows those delivered. Nothing else
-- keeps an id from being given twice.
SELECT EXISTS (SELECT 1 FROM outbox
                WHERE insertion >> 17 IN (SELECT value FROM json_each(?2))
                  AND substr(message_id, 1, 4) = substr(?1, 1, 4) AND message_id = ?1)
    OR EXISTS (SELECT 1 FROM body WHERE body_id > (SELECT filed_through FROM outbox_total) AND message_id = ?1)
    OR EXISTS (SELECT 1 FROM dead_letter WHERE message_id = ?1);

-- name: load_entry
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation
  FROM outbox
 WHERE insertion >> 17 IN (SELECT value FROM json_each(?2))
   AND substr(message_id, 1, 4) = substr(?1, 1, 4) AND message_id = ?1;

-- name: find_number
-- Filed or not.
SELECT insertion
  FROM outbox
 WHERE insertion >> 17 IN (SELECT value FROM json_each(?2))
   AND substr(message_id, 1, 4) = substr(?1, 1, 4) AND message_id = ?1
 UNION ALL
SELECT body_id FROM body WHERE body_id > (SELECT filed_through FROM outbox_total) AND message_id = ?1
 LIMIT 1;

-- name: numbered_entry
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation
  FROM entry
 WHERE insertion = ?;

-- name: load_body
SELECT payload, sealed_plaintext FROM body WHERE body_id = ?;

-- name: store_state
UPDATE outbox
   SET next_attempt_at_ms = ?, attempts = ?, state = ?, lease_owner = ?, lease_until_ms = ?, last_error = ?,
       first_attempt_at_ms = ?, last_attempt_at_ms = ?, was_sent = ?, reencrypted = ?, confirmation = ?, turn = ?
 WHERE insertion = ?;

-- name: store_attention
UPDATE outbox SET attention_at_ms = ? WHERE insertion = ?;

-- name: store_payload
UPDATE body SET size_bytes = ?, payload = ? WHERE body_id = ?;

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
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation,
       payload, sealed_plaintext
  FROM outbox CROSS JOIN (SELECT body_id AS held, payload, sealed_plaintext FROM body) ON held = body_id
 WHERE turn = 1 AND route = :route AND lane NOT IN (SELECT value FROM json_each(:lanes_down))
 ORDER BY priority DESC, created_at_ms, insertion
 LIMIT :limit;

-- name: head_of_lane
-- Only in strict lanes; the index knows no others.
SELECT insertion
  FROM outbox
 WHERE route = ? AND lane = ? AND was_sent = 0 AND route <> 'mesh'
 ORDER BY insertion
 LIMIT 1;

-- name: give_turn
UPDATE outbox SET turn = next_attempt_at_ms <= ?1 WHERE insertion = ?2 AND turn IS NULL AND state = 'pending';

-- name: next_wake
-- When a waiting entry can be chosen again, or time alone changes one. An arrival may have to be filed first.
SELECT min(at_ms)
  FROM (SELECT min(next_attempt_at_ms) AS at_ms FROM outbox WHERE turn = 0
        UNION ALL
        SELECT min(lease_until_ms) FROM outbox WHERE state = 'sending'
        UNION ALL
        SELECT min(attention_at_ms) FROM outbox
        UNION ALL
        SELECT min(next_attempt_at_ms, attention_at_ms)
          FROM body WHERE body_id > (SELECT filed_through FROM outbox_total));

-- name: to_sweep
-- What is being sent is left to whoever sends it, as long as the lease holds.
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation
  FROM outbox WHERE state = 'sending' AND lease_until_ms <= ?1
 UNION ALL
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation
  FROM outbox WHERE attention_at_ms <= ?1 AND state <> 'sending'
 LIMIT ?2;

-- name: totals
SELECT entries, bytes, filed_through FROM outbox_total;

-- name: held
SELECT entries + (SELECT count(*) FROM body WHERE body_id > filed_through),
       bytes + (SELECT coalesce(sum(size_bytes), 0) FROM body WHERE body_id > filed_through)
  FROM outbox_total;

-- name: store_totals
UPDATE outbox_total SET entries = ?, bytes = ?, filed_through = ?;

-- name: pending_in_lane
SELECT pending FROM lane_total WHERE route = 'relay' AND lane = ?;

-- name: store_pending
INSERT INTO lane_total (route, lane, pending) VALUES ('relay', ?, ?)
    ON CONFLICT (route, lane) DO UPDATE SET pending = excluded.pending;

-- name: oldest_pending
SELECT message_id
  FROM outbox
 WHERE route = ? AND lane = ? AND was_sent = 0 AND route <> 'mesh' AND state = 'pending'
 ORDER BY created_at_ms, insertion
 LIMIT ?;

-- name: count_by_state
SELECT state, count(*) FROM entry GROUP BY state;

-- name: list_entries
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation
  FROM entry
 ORDER BY insertion
 LIMIT :limit;
