-- What an operator asks about an outbox. Nothing here changes anything, and nothing here is on the way of a message.

-- name: waiting
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation,
       is_behind
  FROM entry
 WHERE (:state IS NULL OR state = :state) AND (:lane IS NULL OR lane = :lane)
 ORDER BY insertion
 LIMIT :limit;

-- name: count_waiting
SELECT count(*) FROM entry WHERE (:state IS NULL OR state = :state) AND (:lane IS NULL OR lane = :lane);

-- name: find_number
SELECT insertion
  FROM outbox
 WHERE insertion >> 17 IN (SELECT block FROM outbox_block)
   AND substr(message_id, 1, 4) = substr(:message_id, 1, 4) AND message_id = :message_id
 UNION ALL
SELECT body_id FROM body WHERE body_id > (SELECT filed_through FROM outbox_total) AND message_id = :message_id
 LIMIT 1;

-- name: one
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s,
       queued_at_ms, expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms,
       last_error, first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation,
       is_behind
  FROM entry
 WHERE insertion = :number;

-- name: held_by_state
SELECT state, count(*), sum(size_bytes) FROM entry GROUP BY state;

-- name: fullest_lanes
SELECT lane, count(*) AS pending
  FROM entry
 WHERE route = 'relay' AND state = 'pending'
 GROUP BY lane
 ORDER BY pending DESC, lane
 LIMIT :limit;

-- name: oldest_waiting
SELECT min(created_at_ms) FROM entry WHERE was_sent = 0;

-- name: dead_by_category
SELECT category, count(*), sum(CASE WHEN body_id IS NULL THEN 0 ELSE size_bytes END) FROM dead_letter GROUP BY category;

-- name: letters
-- A limit below zero is none.
SELECT message_id
  FROM dead_letter
 WHERE :category IS NULL OR category = :category
 ORDER BY moved_at_ms, message_id
 LIMIT :limit;

-- name: count_delivered
SELECT count(*) FROM delivered;

-- name: count_evicted
SELECT count(*) FROM fact WHERE kind = 'evicted' AND at_ms >= :since_ms;

-- name: delivered
SELECT kind, priority, confirmation, ended_at_ms FROM delivered WHERE message_id = :message_id;

-- name: ids_between
-- Messages of which more is kept than their facts.
SELECT message_id
  FROM outbox
 WHERE insertion >> 17 IN (SELECT block FROM outbox_block)
   AND substr(message_id, 1, 4) BETWEEN substr(:low, 1, 4) AND substr(:high, 1, 4) AND message_id BETWEEN :low AND :high
 UNION
SELECT message_id
  FROM body WHERE body_id > (SELECT filed_through FROM outbox_total) AND message_id BETWEEN :low AND :high
 UNION
SELECT message_id FROM dead_letter WHERE message_id BETWEEN :low AND :high
 UNION
SELECT message_id FROM delivered WHERE message_id BETWEEN :low AND :high
 ORDER BY message_id
 LIMIT :limit;

-- name: told_ids_between
-- Messages of which only the facts are left. The journal knows those that arrived too; only our own were accepted.
SELECT DISTINCT message_id
  FROM fact
 WHERE kind = 'accepted' AND message_id BETWEEN :low AND :high
 ORDER BY message_id
 LIMIT :limit;
