-- The receiving side of SPEC 9 and 10: one row a session, what waits apart from what was handed on, a dedup cache that
-- forgets by recency, acknowledgements of both types.

-- One row: numbers that must not be given twice (arrivals, places, turns), and how many entries `seen` has.
CREATE TABLE inbox_total (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    arrivals INTEGER NOT NULL,
    places   INTEGER NOT NULL,
    turns    INTEGER NOT NULL,
    seen     INTEGER NOT NULL
) STRICT;

-- SPEC 9.4, 9.5. `missing` are the skipped numbers that may still come, 16 bytes a gap; `wake_at_ms` is when time alone
-- changes the session.
CREATE TABLE inbox_session (
    session     INTEGER PRIMARY KEY,
    sender      BLOB NOT NULL CHECK (length(sender) = 32),
    session_id  BLOB NOT NULL CHECK (length(session_id) = 32),
    phase       TEXT NOT NULL CHECK (phase IN ('flowing', 'waiting', 'broken', 'closed')),
    expected    INTEGER NOT NULL,
    missing     BLOB NOT NULL,
    asked_at_ms INTEGER,
    reason      INTEGER,
    wake_at_ms  INTEGER,
    UNIQUE (sender, session_id)
) STRICT;

CREATE INDEX inbox_session_wake ON inbox_session (wake_at_ms) WHERE wake_at_ms IS NOT NULL;

-- The reorder buffer. A row without a body holds a number whose message another session brought before.
CREATE TABLE inbox_waiting (
    arrival             INTEGER PRIMARY KEY,
    session             INTEGER NOT NULL,
    sequence_number     INTEGER NOT NULL,
    message_id          BLOB NOT NULL,
    kind                TEXT NOT NULL,
    ttl_type            INTEGER NOT NULL,
    ttl_s               INTEGER NOT NULL,
    created_at_ms       INTEGER NOT NULL,
    received_at_ms      INTEGER NOT NULL,
    server_timestamp_ms INTEGER NOT NULL,
    sealed_plaintext    BLOB,
    UNIQUE (session, sequence_number)
) STRICT;

-- SPEC 9.6. `place` is the order in which the application gets them. `session` is no declared reference: looking it up
-- would cost as much as the insert.
CREATE TABLE inbox_message (
    place               INTEGER PRIMARY KEY,
    arrival             INTEGER NOT NULL,
    session             INTEGER NOT NULL,
    sequence_number     INTEGER NOT NULL,
    message_id          BLOB NOT NULL,
    kind                TEXT NOT NULL,
    is_late             INTEGER NOT NULL,
    ttl_type            INTEGER NOT NULL,
    ttl_s               INTEGER NOT NULL,
    received_at_ms      INTEGER NOT NULL,
    server_timestamp_ms INTEGER NOT NULL,
    first_read_at_ms    INTEGER,
    expires_at_ms       INTEGER,
    sealed_plaintext    BLOB NOT NULL
) STRICT;

CREATE INDEX inbox_message_expiry ON inbox_message (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- Acknowledgements that are owed; removed in the transaction that queues them. The number is that of the arrival which
-- is acknowledged, so that a message whose first receipt has left is one without a row here.
CREATE TABLE owed_ack (
    number     INTEGER PRIMARY KEY,
    type       INTEGER NOT NULL CHECK (type IN (2, 3)),
    sender     BLOB NOT NULL,
    message_id BLOB NOT NULL,
    since_ms   INTEGER NOT NULL
) STRICT;

INSERT INTO inbox_session (sender, session_id, phase, expected, missing)
SELECT sender, session_id, 'flowing', expected, x'' FROM incoming_session;

INSERT INTO inbox_waiting
SELECT arrival, session, sequence_number, message_id, kind, 0, 2592000, received_at_ms, received_at_ms,
       server_timestamp_ms, sealed_plaintext
  FROM inbox JOIN inbox_session USING (sender, session_id)
 WHERE released IS NULL;

UPDATE inbox_session
   SET phase = 'waiting',
       wake_at_ms = (SELECT min(received_at_ms) + 300000 FROM inbox_waiting WHERE inbox_waiting.session = inbox_session.session)
 WHERE session IN (SELECT session FROM inbox_waiting);

-- Schema 1 kept no lives: what it took in stays for the longest a relay would have held it.
INSERT INTO inbox_message
SELECT released, arrival, session, sequence_number, message_id, kind, 0, 0, 2592000, received_at_ms,
       server_timestamp_ms, first_read_at_ms, received_at_ms + 2592000000, sealed_plaintext
  FROM inbox JOIN inbox_session USING (sender, session_id)
 WHERE released IS NOT NULL AND kind <> 'control';

INSERT INTO owed_ack
SELECT coalesce((SELECT arrival FROM inbox WHERE inbox.sender = owed_receipt.sender
                    AND inbox.message_id = owed_receipt.message_id), (SELECT max(arrival) FROM inbox) + number),
       2, sender, message_id, since_ms
  FROM owed_receipt
 WHERE true
    ON CONFLICT DO NOTHING;

INSERT INTO inbox_total
SELECT 1, max((SELECT coalesce(max(arrival), 0) FROM inbox), (SELECT coalesce(max(number), 0) FROM owed_ack)),
       (SELECT coalesce(max(released), 0) FROM inbox), 0, 0;

DROP TABLE inbox;
DROP TABLE incoming_session;
DROP TABLE owed_receipt;
DROP TABLE seen;

-- SPEC 9.1, 9.2: what was seen before, least recently seen first. `bucket` and the first 8 bytes of `mark` find every
-- arrival of a message; then come session, payload and content, 8, 16 and 8 bytes. What schema 1 had seen cannot be found
-- this way: a repeat of it is known by its number only, and is called a replay.
CREATE TABLE seen (
    turn       INTEGER PRIMARY KEY,
    bucket     INTEGER NOT NULL,
    mark       BLOB NOT NULL CHECK (length(mark) = 40),
    is_acknowledged INTEGER NOT NULL,
    seen_at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX seen_bucket ON seen (bucket);
