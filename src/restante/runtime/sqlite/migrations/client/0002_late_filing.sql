-- A send writes its body and its fact, nothing else: entries are put in order later, many at a time. One number, that of
-- the fact which queued a message, names its body and its place in the queue, so no table counts for itself any more.

CREATE TABLE new_journal (
    number       INTEGER PRIMARY KEY,
    at_ms        INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    message_id   BLOB,
    session_tag  BLOB,
    sequence     INTEGER,
    payload_hash BLOB,
    size_bytes   INTEGER,
    message_kind TEXT,
    priority     INTEGER,
    attempt      INTEGER,
    code         TEXT,
    node         BLOB,
    latency_ms   INTEGER,
    ttl_s        INTEGER
) STRICT;
INSERT INTO new_journal SELECT * FROM journal;
DROP TABLE journal;
ALTER TABLE new_journal RENAME TO journal;

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
    payload            BLOB NOT NULL,
    sealed_plaintext   BLOB NOT NULL
) STRICT;
INSERT INTO new_body
SELECT body_id, message_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s, queued_at_ms, expires_at_ms,
       next_attempt_at_ms, attention_at_ms, payload, sealed_plaintext
  FROM body JOIN outbox USING (body_id);
INSERT INTO new_body
SELECT body_id, message_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s, queued_at_ms,
       message_expires_at_ms, moved_at_ms, moved_at_ms, payload, sealed_plaintext
  FROM body JOIN dead_letter USING (body_id);

-- `body_id` is no declared reference: SQLite would look for it without an index whenever a body goes.
CREATE TABLE new_dead_letter (
    message_id          BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    body_id             INTEGER,
    size_bytes          INTEGER NOT NULL,
    route               TEXT NOT NULL,
    lane                TEXT NOT NULL,
    kind                TEXT NOT NULL,
    priority            INTEGER NOT NULL,
    created_at_ms       INTEGER NOT NULL,
    queued_at_ms        INTEGER NOT NULL,
    ttl_s               INTEGER NOT NULL,
    message_expires_at_ms INTEGER NOT NULL,
    last_error          TEXT,
    reason              TEXT NOT NULL,
    code                TEXT,
    category            TEXT NOT NULL,
    state               TEXT NOT NULL,
    total_attempts      INTEGER NOT NULL,
    first_attempt_at_ms INTEGER,
    last_attempt_at_ms  INTEGER,
    first_buried_at_ms  INTEGER NOT NULL,
    confirmation        INTEGER NOT NULL,
    moved_at_ms         INTEGER NOT NULL,
    expires_at_ms       INTEGER NOT NULL,
    retry_at_ms         INTEGER
) STRICT;
INSERT INTO new_dead_letter SELECT * FROM dead_letter ORDER BY rowid;
DROP TABLE dead_letter;
ALTER TABLE new_dead_letter RENAME TO dead_letter;
CREATE INDEX dead_letter_expiry ON dead_letter (expires_at_ms);
CREATE INDEX dead_letter_retry ON dead_letter (retry_at_ms) WHERE retry_at_ms IS NOT NULL;

DROP TABLE body;
ALTER TABLE new_body RENAME TO body;

-- SPEC 3.1, in the order it is chosen by. `insertion` is the number of the fact that queued the entry. `turn` says whether
-- it can be chosen: 1 now, 0 once next_attempt_at_ms has come, NULL not at all (being sent, or behind another in a strict
-- lane). No sweep need look at an entry before `attention_at_ms`, unless its lease lapses.
CREATE TABLE new_outbox (
    insertion           INTEGER PRIMARY KEY,
    message_id          BLOB NOT NULL UNIQUE CHECK (length(message_id) = 16),
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
    state               TEXT NOT NULL CHECK (state IN ('pending', 'sending', 'sent')),
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
INSERT INTO new_outbox
SELECT insertion, message_id, body_id, size_bytes, route, lane, kind, priority, created_at_ms, ttl_s, queued_at_ms,
       expires_at_ms, next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms, last_error,
       first_attempt_at_ms, last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation, turn,
       attention_at_ms
  FROM outbox;
DROP TABLE outbox;
ALTER TABLE new_outbox RENAME TO outbox;
CREATE INDEX outbox_ready ON outbox (route, priority DESC, created_at_ms, insertion) WHERE turn = 1;
CREATE INDEX outbox_waiting ON outbox (next_attempt_at_ms) WHERE turn = 0;
CREATE INDEX outbox_attention ON outbox (attention_at_ms);
CREATE INDEX outbox_leased ON outbox (lease_until_ms) WHERE state = 'sending';
-- Only lanes that keep their order ask who stands first.
CREATE INDEX outbox_unsent ON outbox (route, lane, insertion) WHERE was_sent = 0 AND route <> 'mesh';

-- How much the filed entries are, and up to which number arrivals were filed (SPEC 3.6).
DROP TABLE outbox_total;
CREATE TABLE outbox_total (
    only          INTEGER PRIMARY KEY CHECK (only = 1),
    entries       INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,
    filed_through INTEGER NOT NULL
) STRICT;
INSERT INTO outbox_total
SELECT 1, count(*), coalesce(sum(size_bytes), 0), (SELECT coalesce(max(number), 0) FROM journal) FROM outbox;

-- Filed entries that are pending; only relay lanes have a limit.
DELETE FROM lane_total WHERE route <> 'relay';

-- Every entry in flight, filed or not, as everyone but the outbox itself should see it.
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
