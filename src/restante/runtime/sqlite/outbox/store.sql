-- The outbox (SPEC 3). Only rows change here; core/outbox decides what a change means, policy/send_order the order.
-- `{entry}` stands for the columns of row_codec.EntryRow.

-- name: add_body
-- Store the body of a new message.
INSERT INTO message_body (body_id, payload, sealed_plaintext) VALUES (?, ?, ?);

-- name: add_entry
-- Queue a new message. Columns that are not named have the default of a pending entry.
INSERT INTO outbox (queue_number, message_id, lane_id, place, body_id, size_bytes, kind, priority, created_at_ms, ttl_s, queued_at_ms, queued_connected_ms, expires_at_ms, next_deadline_ms, next_attempt_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_recovered
-- Queue a dead letter again.
INSERT INTO outbox (queue_number, message_id, lane_id, place, body_id, size_bytes, kind, priority, created_at_ms, ttl_s, queued_at_ms, queued_connected_ms, expires_at_ms, next_deadline_ms, next_attempt_at_ms, first_dead_at_ms, last_error, first_attempt_at_ms, last_attempt_at_ms, confirmation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: is_known
-- Whether an id was given to a message that is in flight, dead or ended in the last 30 days.
SELECT EXISTS (SELECT 1 FROM outbox WHERE message_id = ?1)
    OR EXISTS (SELECT 1 FROM dead_letter WHERE message_id = ?1)
    OR EXISTS (SELECT 1 FROM delivered_index WHERE message_id = ?1);

-- name: load_entry
-- One entry in flight by its id, without its body.
SELECT {entry} FROM outbox JOIN lane USING (lane_id) WHERE message_id = ?;

-- name: load_body
-- The body of an entry or a dead letter.
SELECT payload, sealed_plaintext FROM message_body WHERE body_id = ?;

-- name: store_state
-- What a step of the machine may change.
UPDATE outbox SET next_attempt_at_ms = ?, attempts = ?, failures = ?, state = ?, lease_owner = ?, lease_until_ms = ?, last_error = ?, first_attempt_at_ms = ?, last_attempt_at_ms = ?, times_stored = ?, has_failed_to_encrypt = ?, confirmation = ? WHERE queue_number = ?;

-- name: store_payload
-- The sealed bytes of a message that was encrypted; none while it waits to be encrypted again.
UPDATE message_body SET payload = ? WHERE body_id = ?;

-- name: remove_entry
-- The entry has ended.
DELETE FROM outbox WHERE queue_number = ?;

-- name: remove_body
-- The payload is no longer needed.
DELETE FROM message_body WHERE body_id = ?;

-- name: unsent
-- The oldest unsent entries of a lane in the order of acceptance, for policy/send_order.
SELECT place, state, next_attempt_at_ms, priority, created_at_ms, queue_number, message_id
  FROM outbox
 WHERE lane_id = ? AND times_stored = 0
 ORDER BY queue_number
 LIMIT ?;

-- name: run
-- The pending entries of a lane between two numbers, with their bodies, to lease them.
SELECT {entry}, payload, sealed_plaintext
  FROM outbox CROSS JOIN lane USING (lane_id) CROSS JOIN message_body USING (body_id)
 WHERE lane_id = ? AND times_stored = 0 AND state = 'pending' AND queue_number BETWEEN ? AND ?
 ORDER BY queue_number
 LIMIT ?;

-- name: again
-- Entries that were stored before and are due to be stored again. A wait that ends too late shows that the clock
-- jumped; those after their message's expiry are left to the sweep.
SELECT {entry}
  FROM outbox JOIN lane USING (lane_id)
 WHERE times_stored > 0 AND state <> 'sending' AND next_attempt_at_ms < expires_at_ms
   AND (next_attempt_at_ms <= ?1 OR next_attempt_at_ms > ?2)
 ORDER BY queue_number;

-- name: sending_again
-- How many entries of each lane are being stored again.
SELECT lane_id, count(*) FROM outbox WHERE times_stored > 0 AND state = 'sending' GROUP BY lane_id;

-- name: waiting_in_lane
-- Unsent entries of a lane whose wait is not over, which ends when the recipient is reached.
SELECT {entry}
  FROM outbox JOIN lane USING (lane_id)
 WHERE lane_id = ? AND times_stored = 0 AND state = 'pending' AND next_attempt_at_ms > ?;

-- name: overdue_in_lane
-- Unsent entries that may have waited too long on a connected lane (SPEC 2.2), with the lane's clock when queued.
SELECT {entry}, queued_connected_ms
  FROM outbox JOIN lane USING (lane_id)
 WHERE lane_id = ? AND times_stored = 0 AND state = 'pending' AND queued_connected_ms <= ?;

-- name: oldest_pending
-- The pending entries of an upstream lane, the first to be evicted first (SPEC 3.6).
SELECT message_id
  FROM outbox
 WHERE lane_id = ? AND times_stored = 0 AND state = 'pending'
 ORDER BY created_at_ms, queue_number;

-- name: to_sweep
-- Entries whose lease is over, or that time alone ends. One that is being sent is left to its owner.
SELECT {entry} FROM outbox JOIN lane USING (lane_id)
 WHERE CASE state WHEN 'sending' THEN lease_until_ms <= ?1 OR lease_until_ms > ?2 ELSE next_deadline_ms <= ?1 END
 LIMIT ?3;

-- name: leased_by
-- The entries that a drain leased, for the process that knows that this drain is dead.
SELECT {entry} FROM outbox JOIN lane USING (lane_id) WHERE state = 'sending' AND lease_owner = ?;

-- name: next_wake
-- When a stored entry is due again, a lease ends, or time alone ends an entry.
SELECT min(CASE WHEN state = 'sending' THEN min(lease_until_ms, next_deadline_ms)
                WHEN times_stored > 0 AND next_attempt_at_ms > ?1 THEN min(next_attempt_at_ms, next_deadline_ms)
                ELSE next_deadline_ms END)
  FROM outbox;

-- name: count_by_state
-- How many entries are in flight, by state.
SELECT state, count(*) FROM outbox GROUP BY state;

-- name: list_entries
-- The oldest entries in flight, without their bodies.
SELECT {entry} FROM outbox JOIN lane USING (lane_id) ORDER BY queue_number LIMIT :limit;

-- name: lanes
-- Every lane with its totals and the entry that leaves it next.
SELECT lane_id, route, name, relay, next_place, entries, bytes, dead, connected_ms, checked_at_ms, waits_until_ms,
       first_place, due_at_ms, next_priority, next_created_at_ms, next_queue_number
  FROM lane;

-- name: add_lane
-- A lane that is written to for the first time.
INSERT INTO lane (route, name, relay, next_place, entries, bytes, dead, connected_ms, checked_at_ms, waits_until_ms) VALUES (?, ?, ?, 0, 0, 0, 0, 0, ?, 0);

-- name: store_lane
-- What changes in a lane.
UPDATE lane SET relay = ?, next_place = ?, entries = ?, bytes = ?, dead = ?, connected_ms = ?, checked_at_ms = ?, waits_until_ms = ?, first_place = ?, due_at_ms = ?, next_priority = ?, next_created_at_ms = ?, next_queue_number = ? WHERE lane_id = ?;
