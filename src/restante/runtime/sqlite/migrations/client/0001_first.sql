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

-- SPEC 3.1. State changes touch only this narrow table; bodies are written once, beside it.
CREATE TABLE outbox (
    insertion           INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id          BLOB NOT NULL UNIQUE CHECK (length(message_id) = 16),
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
    state               TEXT NOT NULL,
    lease_owner         TEXT,
    lease_until_ms      INTEGER,
    last_error          TEXT,
    first_attempt_at_ms INTEGER,
    last_attempt_at_ms  INTEGER,
    was_sent            INTEGER NOT NULL,
    reencrypted         INTEGER NOT NULL,
    confirmation        INTEGER NOT NULL
) STRICT;

CREATE INDEX outbox_by_lane ON outbox (route, lane, state, insertion);

CREATE TABLE outbox_body (
    insertion        INTEGER PRIMARY KEY REFERENCES outbox (insertion) ON DELETE CASCADE,
    payload          BLOB NOT NULL,
    sealed_plaintext BLOB NOT NULL
) STRICT;

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

-- SPEC 5.1: given up, with why and until when it is kept. A tombstone has an empty payload.
CREATE TABLE dead_letter (
    message_id       BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    reason           TEXT NOT NULL,
    code             TEXT,
    category         TEXT NOT NULL,
    total_attempts   INTEGER NOT NULL,
    moved_at_ms      INTEGER NOT NULL,
    expires_at_ms    INTEGER NOT NULL,
    payload          BLOB NOT NULL,
    sealed_plaintext BLOB NOT NULL
) STRICT;
