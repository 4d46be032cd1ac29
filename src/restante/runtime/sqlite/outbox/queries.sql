-- What an operator asks about an outbox. Nothing here changes anything, and nothing here is on the way of a message.
-- `{entry}` stands for the columns of row_codec.EntryRow.

-- name: waiting
-- Entries in flight in the order of acceptance, for `outbox list`.
SELECT {view}, is_blocked
  FROM entry
 WHERE (:state IS NULL OR state = :state) AND (:lane IS NULL OR lane = :lane)
 ORDER BY queue_number
 LIMIT :limit;

-- name: count_waiting
-- How many entries the list would have without its limit.
SELECT count(*) FROM entry WHERE (:state IS NULL OR state = :state) AND (:lane IS NULL OR lane = :lane);

-- name: one
-- One entry in flight, for `outbox show`.
SELECT {view}, is_blocked FROM entry WHERE message_id = :message_id;

-- name: held_by_state
-- Messages and bytes in flight, by state, for `outbox stats`.
SELECT state, count(*), sum(size_bytes) FROM outbox GROUP BY state;

-- name: fullest_lanes
-- The lanes that are nearest to their share of the outbox (SPEC 3.6), for `outbox stats`.
-- Only pending entries count in an upstream lane.
SELECT route, name, held
  FROM (SELECT route, name, CASE route WHEN 'upstream'
               THEN (SELECT count(*) FROM outbox WHERE outbox.lane_id = lane.lane_id AND state = 'pending')
               ELSE entries END AS held
          FROM lane WHERE entries > 0)
 WHERE held > 0
 ORDER BY CAST(held AS REAL) / CASE route WHEN 'upstream' THEN :upstream ELSE :share END DESC, name
 LIMIT :limit;

-- name: oldest_waiting
-- When the oldest message was created that has not left yet.
SELECT min(created_at_ms) FROM outbox WHERE times_stored = 0;

-- name: dead_by_category
-- Dead letters and their bytes, by category, for `outbox stats`.
SELECT category, count(*), sum(CASE WHEN body_id IS NULL THEN 0 ELSE size_bytes END) FROM dead_letter GROUP BY category;

-- name: count_evicted
-- How many messages were evicted lately, for `outbox stats`.
SELECT count(*) FROM delivered_index WHERE state = 'evicted' AND ended_at_ms >= :since_ms;

-- name: letters
-- Ids of dead letters in the order in which they were given up. A limit below zero is none.
SELECT message_id
  FROM dead_letter
 WHERE :category IS NULL OR category = :category
 ORDER BY moved_at_ms, message_id
 LIMIT :limit;

-- name: count_delivered
-- How many messages of the last 30 days were delivered.
SELECT count(*) FROM delivered_index WHERE state = 'delivered';

-- name: ids_between
-- Messages of which more is kept than their journal events, for ids that are given by their first digits.
SELECT message_id FROM outbox WHERE message_id BETWEEN :low AND :high
 UNION
SELECT message_id FROM dead_letter WHERE message_id BETWEEN :low AND :high
 UNION
SELECT message_id FROM delivered_index WHERE message_id BETWEEN :low AND :high
 ORDER BY message_id
 LIMIT :limit;

-- name: journaled_ids_between
-- Messages of which only journal events are left. Received messages are journaled, too; only our own were accepted.
SELECT DISTINCT message_id
  FROM journal
 WHERE kind = 'accepted' AND message_id BETWEEN :low AND :high
 ORDER BY message_id
 LIMIT :limit;
