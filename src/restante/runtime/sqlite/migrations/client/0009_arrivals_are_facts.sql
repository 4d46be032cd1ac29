-- The row of a message that was accepted and not filed yet is its `accepted` fact as well: a send writes one page, not
-- two. With filing the fact goes to the journal like any other. Both together are `fact`, the journal as everyone reads it.

DROP VIEW entry;

-- A message as it was accepted. What comes before the payload is read when the entry is filed.
CREATE TABLE new_body (
    body_id            INTEGER PRIMARY KEY,
    message_id         BLOB NOT NULL CHECK (length(message_id) = 16),
    size_bytes         INTEGER NOT NULL,
    route              TEXT NOT NULL,
    lane               TEXT NOT NULL,
    kind               TEXT NOT NULL,
    priority           INTEGER NOT NULL,
    created_at_ms      INTEGER NOT NULL,
    ttl_s              INTEGER NOT NULL,
    queued_at_ms       INTEGER NOT NULL,
    expires_at_ms      INTEGER NOT NULL,
    next_attempt_at_ms INTEGER NOT NULL,
    attention_at_ms    INTEGER NOT NULL,
    session_tag        BLOB,
    sequence           INTEGER,
    payload_hash       BLOB,
    payload            BLOB NOT NULL,
    sealed_plaintext   BLOB NOT NULL
) STRICT;
-- Facts of arrivals are in the journal of a file that comes here: from now on their rows say the same.
INSERT INTO new_body
SELECT body_id, body.message_id, body.size_bytes, route, lane, body.kind, body.priority, created_at_ms, body.ttl_s,
       coalesce(at_ms, queued_at_ms), expires_at_ms, next_attempt_at_ms, attention_at_ms, session_tag, sequence,
       payload_hash, payload, sealed_plaintext
  FROM body LEFT JOIN journal ON number = body_id AND body_id > (SELECT filed_through FROM outbox_total);
DELETE FROM journal
 WHERE number IN (SELECT body_id FROM new_body WHERE body_id > (SELECT filed_through FROM outbox_total));
DROP TABLE body;
ALTER TABLE new_body RENAME TO body;

CREATE VIEW fact AS
SELECT number, at_ms, kind, message_id, session_tag, sequence, payload_hash, size_bytes, message_kind, priority,
       attempt, code, node, latency_ms, ttl_s
  FROM journal
 UNION ALL
SELECT body_id, queued_at_ms, 'accepted', message_id, session_tag, sequence, payload_hash, size_bytes, kind, priority,
       NULL, NULL, NULL, NULL, ttl_s
  FROM body
 WHERE body_id > (SELECT filed_through FROM outbox_total);

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
