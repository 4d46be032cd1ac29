-- What must hold in a client's file between any two transactions. Each statement gives one row for each breach.

-- name: structure
PRAGMA integrity_check(100);

-- name: references
PRAGMA foreign_key_check;

-- name: totals
-- What was counted, beside what is there.
SELECT total.entries, total.bytes, counted.entries, counted.bytes
  FROM (SELECT count(*) AS entries, coalesce(sum(size_bytes), 0) AS bytes FROM outbox) AS counted
  LEFT JOIN outbox_total AS total
 WHERE (total.entries, total.bytes) IS NOT (counted.entries, counted.bytes);

-- name: lane_totals
SELECT route, lane, coalesce(max(kept), 0), coalesce(max(counted), 0)
  FROM (SELECT route, lane, pending AS kept, NULL AS counted FROM lane_total
        UNION ALL
        SELECT route, lane, NULL, sum(state = 'pending') FROM outbox WHERE route = 'relay' GROUP BY lane)
 GROUP BY route, lane
HAVING coalesce(max(kept), 0) <> coalesce(max(counted), 0);

-- name: missing_bodies
SELECT message_id, 'waits in the outbox'
  FROM outbox WHERE body_id NOT IN (SELECT body_id FROM body)
 UNION ALL
SELECT message_id, 'is a dead letter'
  FROM dead_letter WHERE category <> 'expired' AND (body_id IS NULL OR body_id NOT IN (SELECT body_id FROM body));

-- name: odd_bodies
SELECT outbox.message_id, outbox.size_bytes, length(payload)
  FROM outbox JOIN body USING (body_id) WHERE outbox.size_bytes <> length(payload)
 UNION ALL
SELECT message_id, size_bytes, length(payload)
  FROM body
 WHERE body_id > (SELECT filed_through FROM outbox_total) AND size_bytes <> length(payload)
 UNION ALL
SELECT dead_letter.message_id, dead_letter.size_bytes, length(payload)
  FROM dead_letter JOIN body USING (body_id) WHERE dead_letter.size_bytes <> length(payload);

-- name: stray_bodies
SELECT body_id
  FROM body
 WHERE body_id NOT IN (SELECT body_id FROM entry)
   AND body_id NOT IN (SELECT body_id FROM dead_letter WHERE category <> 'expired' AND body_id IS NOT NULL);

-- name: stray_progress
SELECT message_id
  FROM channel_progress
 WHERE message_id NOT IN (SELECT message_id FROM entry)
   AND message_id NOT IN (SELECT message_id FROM dead_letter WHERE category <> 'expired');

-- name: holes
-- Numbers that no fact has; the last row is for facts missing at the end: a message and its place in the queue have the
-- number of the fact that made them, and of other facts the newest is marked.
SELECT before + 1, number - 1
  FROM (SELECT number, lag(number, 1, 0) OVER (ORDER BY number) AS before FROM fact)
 WHERE number <> before + 1
 UNION ALL
SELECT last + 1, used
  FROM (SELECT coalesce(max(number), 0) AS last FROM fact)
  JOIN (SELECT max(coalesce((SELECT max(body_id) FROM body), 0),
                    coalesce((SELECT max(insertion) FROM outbox), 0),
                    coalesce((SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta WHERE key = 'last_fact'), 0)) AS used)
 WHERE used > last;

-- name: two_places
SELECT message_id FROM entry WHERE message_id IN (SELECT message_id FROM dead_letter)
 UNION
SELECT message_id FROM delivered
 WHERE message_id IN (SELECT message_id FROM entry UNION SELECT message_id FROM dead_letter);

-- name: repeated_ids
SELECT message_id, count(*) FROM entry GROUP BY message_id HAVING count(*) > 1;

-- name: states
-- The state the facts tell, beside the state of the row. Delivered and evicted messages leave no row in these tables,
-- a discarded dead letter neither. `state_after` is model.journal.STATE_AFTER as JSON.
WITH
told AS (
    SELECT message_id, max(number) AS number, after.value AS state
      FROM fact JOIN json_each(:state_after) AS after ON after.key = fact.kind
     WHERE message_id IS NOT NULL
     GROUP BY message_id
),
discarded AS (
    SELECT message_id, max(number) AS number FROM fact WHERE kind = 'discarded' GROUP BY message_id
),
expected AS (
    SELECT told.message_id, CASE WHEN discarded.number > told.number THEN 'discarded' ELSE told.state END AS state
      FROM told LEFT JOIN discarded USING (message_id)
),
kept AS (
    SELECT message_id, state FROM entry UNION ALL SELECT message_id, state FROM dead_letter
)
SELECT message_id, expected.state, kept.state
  FROM expected FULL JOIN kept USING (message_id)
 WHERE expected.state IS NOT kept.state
   AND NOT (kept.state IS NULL AND expected.state IN ('delivered', 'evicted', 'discarded'));

-- name: sent_index
SELECT message_id
  FROM delivered
 WHERE message_id NOT IN (SELECT message_id FROM fact WHERE kind = 'delivered' AND message_id IS NOT NULL);

-- name: words
-- Every value that must be a word this version knows.
SELECT 'route', route FROM entry UNION SELECT 'route', route FROM dead_letter
 UNION SELECT 'kind', kind FROM entry UNION SELECT 'kind', kind FROM dead_letter UNION SELECT 'kind', kind FROM delivered
 UNION SELECT 'priority', priority FROM entry UNION SELECT 'priority', priority FROM dead_letter
 UNION SELECT 'priority', priority FROM delivered
 UNION SELECT 'code', last_error FROM entry WHERE last_error IS NOT NULL
 UNION SELECT 'code', last_error FROM dead_letter WHERE last_error IS NOT NULL
 UNION SELECT 'code', code FROM dead_letter WHERE code IS NOT NULL
 UNION SELECT 'confirmation', confirmation FROM entry UNION SELECT 'confirmation', confirmation FROM dead_letter
 UNION SELECT 'confirmation', confirmation FROM delivered
 UNION SELECT 'reason', reason FROM dead_letter
 UNION SELECT 'category', category FROM dead_letter
 UNION SELECT 'state', state FROM dead_letter
 UNION SELECT 'fact', kind FROM fact;
