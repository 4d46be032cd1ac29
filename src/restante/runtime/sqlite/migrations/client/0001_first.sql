-- A client's file: what it sends, what it received, and the journal of both.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Facts, in the order they became true. AUTOINCREMENT: a number is never given twice and has no holes.
CREATE TABLE journal (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
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

-- Bodies are written once and read once; what changes while a message lives is kept apart, in narrow rows.
CREATE TABLE body (
    body_id          INTEGER PRIMARY KEY,
    payload          BLOB NOT NULL,
    sealed_plaintext BLOB NOT NULL
) STRICT;

-- SPEC 3.1. `turn` says whether the entry can be chosen: 1 now, 0 once next_attempt_at_ms has come, NULL not at all
-- (being sent, or behind another in a strict lane). `attention_at_ms` is when time alone next changes it: expiry,
-- longest unsent wait, lapsed lease. `body_id` is no declared reference: SQLite would look for it here, without an index,
-- whenever a body goes.
CREATE TABLE outbox (
    insertion           INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id          BLOB NOT NULL UNIQUE CHECK (length(message_id) = 16),
    body_id             INTEGER NOT NULL,
    size_bytes          INTEGER NOT NULL,
    route               TEXT NOT NULL,
    lane                TEXT NOT NULL,
    kind                TEXT NOT NULL,
    priority            INTEGER NOT NULL,
    created_at_ms       INTEGER NOT NULL,
    queued_at_ms        INTEGER NOT NULL,
    ttl_s               INTEGER NOT NULL,
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

CREATE INDEX outbox_ready ON outbox (route, priority DESC, created_at_ms, insertion) WHERE turn = 1;
CREATE INDEX outbox_waiting ON outbox (next_attempt_at_ms) WHERE turn = 0;
CREATE INDEX outbox_attention ON outbox (attention_at_ms);
-- Only lanes that keep their order ask who stands first.
CREATE INDEX outbox_unsent ON outbox (route, lane, insertion) WHERE was_sent = 0 AND route <> 'mesh';

-- How much is held, kept by triggers so that no path can forget it (SPEC 3.6).
CREATE TABLE outbox_total (
    only    INTEGER PRIMARY KEY CHECK (only = 1),
    entries INTEGER NOT NULL,
    bytes   INTEGER NOT NULL
) STRICT;
INSERT INTO outbox_total VALUES (1, 0, 0);

CREATE TABLE lane_total (
    route   TEXT NOT NULL,
    lane    TEXT NOT NULL,
    pending INTEGER NOT NULL,
    PRIMARY KEY (route, lane)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER outbox_added AFTER INSERT ON outbox BEGIN
    UPDATE outbox_total SET entries = entries + 1, bytes = bytes + NEW.size_bytes;
    INSERT INTO lane_total VALUES (NEW.route, NEW.lane, NEW.state = 'pending')
        ON CONFLICT (route, lane) DO UPDATE SET pending = pending + excluded.pending;
END;

CREATE TRIGGER outbox_removed AFTER DELETE ON outbox BEGIN
    UPDATE outbox_total SET entries = entries - 1, bytes = bytes - OLD.size_bytes;
    UPDATE lane_total SET pending = pending - (OLD.state = 'pending') WHERE route = OLD.route AND lane = OLD.lane;
END;

CREATE TRIGGER outbox_resized AFTER UPDATE OF size_bytes ON outbox BEGIN
    UPDATE outbox_total SET bytes = bytes + NEW.size_bytes - OLD.size_bytes;
END;

CREATE TRIGGER outbox_changed AFTER UPDATE OF state ON outbox
WHEN (OLD.state = 'pending') <> (NEW.state = 'pending') BEGIN
    UPDATE lane_total SET pending = pending + (NEW.state = 'pending') - (OLD.state = 'pending')
     WHERE route = NEW.route AND lane = NEW.lane;
END;

-- SPEC 5.1: given up, whole, with why and until when it is kept. A tombstone has no body.
CREATE TABLE dead_letter (
    message_id          BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    body_id             INTEGER REFERENCES body (body_id),
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

CREATE INDEX dead_letter_expiry ON dead_letter (expires_at_ms);
CREATE INDEX dead_letter_body ON dead_letter (body_id);
CREATE INDEX dead_letter_retry ON dead_letter (retry_at_ms) WHERE retry_at_ms IS NOT NULL;

-- SPEC 3.13: what was delivered, so that a late READ still finds its message. No payload.
CREATE TABLE sent_index (
    message_id   BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    kind         TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    confirmation INTEGER NOT NULL,
    ended_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sent_index_age ON sent_index (ended_at_ms);

-- One numbered stream of messages to one peer (SPEC 8.4).
CREATE TABLE outgoing_session (
    peer          BLOB PRIMARY KEY CHECK (length(peer) = 32),
    session_id    BLOB NOT NULL CHECK (length(session_id) = 32),
    next_sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- SPEC 9.1: what was seen before. The key is a hash of sender, session and message_id.
CREATE TABLE seen (
    dedup_key    BLOB PRIMARY KEY CHECK (length(dedup_key) = 32),
    payload_hash BLOB NOT NULL,
    seen_at_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- SPEC 9.4: how far each incoming session was handed on.
CREATE TABLE incoming_session (
    sender     BLOB NOT NULL CHECK (length(sender) = 32),
    session_id BLOB NOT NULL CHECK (length(session_id) = 32),
    expected   INTEGER NOT NULL,
    PRIMARY KEY (sender, session_id)
) STRICT, WITHOUT ROWID;

-- SPEC 9.6. `released` is the order in which the application gets them; NULL while earlier ones are missing.
CREATE TABLE inbox (
    arrival             INTEGER PRIMARY KEY AUTOINCREMENT,
    released            INTEGER UNIQUE,
    message_id          BLOB NOT NULL,
    sender              BLOB NOT NULL,
    session_id          BLOB NOT NULL,
    sequence_number     INTEGER NOT NULL,
    kind                TEXT NOT NULL,
    sealed_plaintext    BLOB NOT NULL,
    received_at_ms      INTEGER NOT NULL,
    server_timestamp_ms INTEGER NOT NULL,
    ack_sent            INTEGER NOT NULL DEFAULT 0,
    first_read_at_ms    INTEGER,
    UNIQUE (sender, session_id, sequence_number)
) STRICT;

-- Receipts that are owed; removed in the transaction that queues the acknowledgement.
CREATE TABLE owed_receipt (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id BLOB NOT NULL,
    sender     BLOB NOT NULL,
    since_ms   INTEGER NOT NULL
) STRICT;
