-- What must hold in a client's file between any two transactions. Each statement returns one row per violation.

-- name: structure
-- Damaged pages and indexes, as SQLite finds them.
PRAGMA integrity_check(100);

-- name: references
-- Rows that refer to a row that is not there.
PRAGMA foreign_key_check;

-- name: lane_totals
-- Lanes whose counts differ from what is there: in the outbox, and as dead letters with a payload.
SELECT route, name, lane.entries, lane.bytes, coalesce(counted.entries, 0), coalesce(counted.bytes, 0)
  FROM lane LEFT JOIN (
       SELECT lane_id, count(*) AS entries, sum(size_bytes) AS bytes
         FROM (SELECT lane_id, size_bytes FROM outbox
               UNION ALL
               SELECT lane_id, size_bytes FROM dead_letter WHERE category <> 'expired')
        GROUP BY lane_id) AS counted USING (lane_id)
 WHERE (lane.entries, lane.bytes) IS NOT (coalesce(counted.entries, 0), coalesce(counted.bytes, 0));

-- name: lane_dead
-- Lanes whose count of retriable dead letters differs from what is there.
SELECT route, name, lane.dead, coalesce(counted.dead, 0)
  FROM lane LEFT JOIN (
       SELECT lane_id, count(*) AS dead FROM dead_letter WHERE category = 'retriable' GROUP BY lane_id) AS counted
       USING (lane_id)
 WHERE lane.dead IS NOT coalesce(counted.dead, 0);

-- name: lane_heads
-- Lanes that do not know their oldest unsent entry.
SELECT route, name, lane.first_place, counted.first_place
  FROM lane LEFT JOIN (
       SELECT lane_id, min(place) AS first_place FROM outbox WHERE times_stored = 0 GROUP BY lane_id) AS counted
       USING (lane_id)
 WHERE lane.first_place IS NOT counted.first_place;

-- name: stray_entries
-- Entries and dead letters whose lane is not there.
SELECT message_id FROM outbox WHERE lane_id NOT IN (SELECT lane_id FROM lane)
 UNION ALL
SELECT message_id FROM dead_letter WHERE lane_id NOT IN (SELECT lane_id FROM lane);

-- name: missing_bodies
-- Messages without their payload.
SELECT message_id, 'waits in the outbox'
  FROM outbox WHERE body_id NOT IN (SELECT body_id FROM message_body)
 UNION ALL
SELECT message_id, 'is a dead letter'
  FROM dead_letter WHERE category <> 'expired' AND (body_id IS NULL OR body_id NOT IN (SELECT body_id FROM message_body));

-- name: cut_bodies
-- Payloads with another size than was accepted. The size of mail is known only roughly before it is encrypted; its hash
-- is checked instead.
SELECT message_id, length(payload), size_bytes
  FROM (SELECT message_id, body_id, size_bytes FROM outbox
        UNION ALL
        SELECT message_id, body_id, size_bytes FROM dead_letter WHERE category <> 'expired')
  JOIN message_body USING (body_id)
 WHERE length(sealed_plaintext) = 0 AND length(payload) <> size_bytes;

-- name: payload_hashes
-- Encrypted payloads with the hash that the journal has of them.
SELECT message_id, payload, payload_hash
  FROM (SELECT message_id, body_id FROM outbox
        UNION ALL
        SELECT message_id, body_id FROM dead_letter WHERE category <> 'expired')
  JOIN message_body USING (body_id)
  JOIN (SELECT message_id, payload_hash, max(number)
          FROM journal
         WHERE payload_hash IS NOT NULL AND kind IN ('accepted', 'attempted', 'reencrypted')
         GROUP BY message_id) USING (message_id)
 WHERE message_id NOT IN (SELECT message_id FROM session_message WHERE is_wanted = 2); -- a lease encrypts it again

-- name: stray_bodies
-- Payloads that belong to no message.
SELECT body_id
  FROM message_body
 WHERE body_id NOT IN (SELECT body_id FROM outbox)
   AND body_id NOT IN (SELECT body_id FROM dead_letter WHERE category <> 'expired' AND body_id IS NOT NULL);

-- name: stray_progress
-- Progress of chunks that are not there.
SELECT message_id
  FROM channel_progress
 WHERE message_id NOT IN (SELECT message_id FROM outbox)
   AND message_id NOT IN (SELECT message_id FROM dead_letter WHERE category <> 'expired');

-- name: gaps
-- Numbers that no journal event has, after those that were pruned. The last row is for events missing at the end: an
-- entry has the number of the event that queued it, and the newest of all other events is marked.
SELECT before + 1, number - 1
  FROM (SELECT number,
               lag(number, 1, coalesce((SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE key = 'pruned_through'), 0))
                   OVER (ORDER BY number) AS before
          FROM journal)
 WHERE number <> before + 1
 UNION ALL
SELECT last + 1, used
  FROM (SELECT coalesce(max(number), 0) AS last FROM journal)
  JOIN (SELECT max(coalesce((SELECT max(queue_number) FROM outbox), 0),
                    coalesce((SELECT max(body_id) FROM message_body), 0),
                    coalesce((SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE key = 'last_number'), 0)) AS used)
 WHERE used > last;

-- name: two_places
-- Messages that are in two tables at once.
SELECT message_id FROM outbox WHERE message_id IN (SELECT message_id FROM dead_letter)
 UNION
SELECT message_id FROM delivered_index
 WHERE message_id IN (SELECT message_id FROM outbox UNION SELECT message_id FROM dead_letter);

-- name: states
-- The state that follows from the journal events, beside the state of the row. Delivered and evicted messages leave no
-- row in these tables, a discarded dead letter neither. Where old events were pruned, a row may have none. `state_after`
-- is model.journal.STATE_AFTER as JSON.
WITH
journaled AS (
    SELECT message_id, max(number) AS number, after.value AS state
      FROM journal JOIN json_each(:state_after) AS after ON after.key = journal.kind
     WHERE message_id IS NOT NULL
     GROUP BY message_id
),
discarded AS (
    SELECT message_id, max(number) AS number FROM journal WHERE kind = 'discarded' GROUP BY message_id
),
expected AS (
    SELECT journaled.message_id, CASE WHEN discarded.number > journaled.number THEN 'discarded' ELSE journaled.state END AS state
      FROM journaled LEFT JOIN discarded USING (message_id)
),
kept AS (
    SELECT message_id, state FROM outbox UNION ALL SELECT message_id, state FROM dead_letter
)
SELECT message_id, expected.state, kept.state
  FROM expected FULL JOIN kept USING (message_id)
 WHERE expected.state IS NOT kept.state
   AND NOT (kept.state IS NULL AND expected.state IN ('delivered', 'evicted', 'discarded'))
   AND NOT (expected.state IS NULL AND EXISTS (SELECT 1 FROM meta WHERE key = 'pruned_through'));

-- name: ended
-- Messages that the index says are delivered or evicted, although no journal event does. Pruned events say nothing.
SELECT message_id
  FROM delivered_index
 WHERE state IN ('delivered', 'evicted')
   AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'pruned_through')
   AND message_id NOT IN (SELECT message_id FROM journal WHERE kind = state AND message_id IS NOT NULL);

-- name: words
-- Every value that must be a word this version knows.
SELECT 'route', route FROM lane
 UNION SELECT 'kind', kind FROM outbox UNION SELECT 'kind', kind FROM dead_letter UNION SELECT 'kind', kind FROM delivered_index
 UNION SELECT 'priority', priority FROM outbox UNION SELECT 'priority', priority FROM dead_letter
 UNION SELECT 'priority', priority FROM delivered_index
 UNION SELECT 'code', last_error FROM outbox WHERE last_error IS NOT NULL
 UNION SELECT 'code', last_error FROM dead_letter WHERE last_error IS NOT NULL
 UNION SELECT 'code', code FROM dead_letter WHERE code IS NOT NULL
 UNION SELECT 'confirmation', confirmation FROM outbox UNION SELECT 'confirmation', confirmation FROM dead_letter
 UNION SELECT 'confirmation', confirmation FROM delivered_index
 UNION SELECT 'reason', reason FROM dead_letter
 UNION SELECT 'category', category FROM dead_letter
 UNION SELECT 'state', state FROM dead_letter UNION SELECT 'state', state FROM delivered_index
 UNION SELECT 'event', kind FROM journal;
