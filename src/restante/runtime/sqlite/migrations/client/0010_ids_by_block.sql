-- Ids are random, so that in one index of a million each arrival would write a page of its own. They are indexed in
-- blocks, by the number an entry has in the queue: an arrival goes to the last block, a look-up asks every block there is.
-- Four bytes of an id tell all but a few apart, and take half the room of sixteen. That an id is new is looked up when
-- it is accepted, in the same transaction.

DROP VIEW entry;
CREATE TABLE new_outbox (
    insertion           INTEGER PRIMARY KEY,
    message_id          BLOB NOT NULL CHECK (length(message_id) = 16),
    body_id             INTEGER NOT NULL,
    size_bytes          INTEGER NOT NULL,
    route               TEXT NOT NULL,
    lane                TEXT NOT NULL,
    kind                TEXT NOT NULL,
    priority            INTEGER NOT NULL,
    created_at_ms       INTEGER NOT NULL,
    ttl_s               INTEGER NOT NULL,
    queued_at_ms        INTEGER NOT NULL,
    expires_at_ms       INTEGER NOT NULL,
    next_attempt_at_ms  INTEGER NOT NULL,
    attempts            INTEGER NOT NULL,
    state               TEXT NOT NULL CHECK (state = 'pending' OR state = 'sending' OR state = 'sent'),
    lease_owner         TEXT,
    lease_until_ms      INTEGER,
    last_error          TEXT,
    first_attempt_at_ms INTEGER,
    last_attempt_at_ms  INTEGER,
    first_buried_at_ms  INTEGER,
    was_sent            INTEGER NOT NULL,
    reencrypted         INTEGER NOT NULL,
    confirmation        INTEGER NOT NULL,
    turn                INTEGER,
    attention_at_ms     INTEGER NOT NULL
) STRICT;
INSERT INTO new_outbox SELECT * FROM outbox;
DROP TABLE outbox;
ALTER TABLE new_outbox RENAME TO outbox;
CREATE INDEX outbox_id ON outbox (insertion >> 17, substr(message_id, 1, 4));
CREATE INDEX outbox_ready ON outbox (route, priority DESC, created_at_ms, insertion) WHERE turn = 1;
CREATE INDEX outbox_waiting ON outbox (next_attempt_at_ms) WHERE turn = 0;
CREATE INDEX outbox_attention ON outbox (attention_at_ms);
CREATE INDEX outbox_leased ON outbox (lease_until_ms) WHERE state = 'sending';
-- Only lanes that keep their order ask who stands first.
CREATE INDEX outbox_unsent ON outbox (route, lane, insertion) WHERE was_sent = 0 AND route <> 'mesh';

-- The blocks in which entries are, the newest first.
CREATE VIEW outbox_block AS
WITH RECURSIVE found (block) AS (
    SELECT max(insertion) >> 17 FROM outbox
     UNION ALL
    SELECT (SELECT max(insertion) >> 17 FROM outbox WHERE insertion < block << 17) FROM found WHERE block IS NOT NULL
)
SELECT block FROM found WHERE block IS NOT NULL;

-- As before.
CREATE VIEW entry AS
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s, queued_at_ms,
       expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms, last_error,
       first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation,
       state = 'pending' AND turn IS NULL AS is_behind, attention_at_ms
  FROM outbox
 UNION ALL
SELECT body_id, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s, queued_at_ms,
       expires_at_ms, next_attempt_at_ms, 0, 'pending', NULL, NULL, NULL,
       NULL, NULL, NULL, 0, 0, 0,
       route <> 'mesh'
       AND (EXISTS (SELECT 1 FROM outbox
                     WHERE outbox.route = arrival.route AND outbox.lane = arrival.lane AND was_sent = 0
                       AND outbox.route <> 'mesh')
            OR EXISTS (SELECT 1 FROM body AS earlier
                        WHERE earlier.body_id > (SELECT filed_through FROM outbox_total)
                          AND earlier.body_id < arrival.body_id
                          AND earlier.route = arrival.route AND earlier.lane = arrival.lane)),
       attention_at_ms
  FROM body AS arrival
 WHERE body_id > (SELECT filed_through FROM outbox_total);
